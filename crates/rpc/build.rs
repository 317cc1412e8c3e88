//! Generates the messages and services of the published `.proto` without an installed `protoc`.

use std::path::PathBuf;

const PROTO: &str = "tallystick/node/v1/node.proto";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile([PROTO], ["proto"])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("node.bin"), prost::Message::encode_to_vec(&files))?;
    // The published file is the documentation; chunks and encodings are passed on without a copy.
    tonic_prost_build::configure()
        .build_transport(false)
        .bytes(".")
        .emit_rerun_if_changed(false)
        .compile_fds(files)?;
    Ok(())
}
