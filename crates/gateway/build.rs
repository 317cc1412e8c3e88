//! Generates the messages and the service of the published `.proto` without an installed `protoc`.

use std::path::PathBuf;

const PROTO: &str = "tallystick/v1/settlement.proto";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile([PROTO], ["proto"])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("settlement.bin"), prost::Message::encode_to_vec(&files))?;
    // The published file is the documentation; batches are passed on without a copy.
    tonic_prost_build::configure()
        .build_transport(false)
        .bytes(".tallystick.v1.SubmitRequest.batch")
        .emit_rerun_if_changed(false)
        .compile_fds(files)?;
    Ok(())
}
