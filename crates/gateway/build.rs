//! Generates the messages and the service of the published `.proto` without an installed `protoc`.

use prost_types::FileDescriptorSet;
use prost_types::field_descriptor_proto::Type;
use std::path::PathBuf;

const PROTO: &str = "tallystick/v1/settlement.proto";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut files = protox::compile([PROTO], ["proto"])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("settlement.bin"), prost::Message::encode_to_vec(&files))?;
    leave_unread(&mut files, "SubmitRequest", "list")?;
    // The published file is the documentation; batches and lists are passed on without a copy.
    tonic_prost_build::configure()
        .build_transport(false)
        .bytes(".tallystick.v1.SubmitRequest")
        .emit_rerun_if_changed(false)
        .compile_fds(files)?;
    Ok(())
}

/// Has the code take a field's message as its bytes, which are the same on the wire: two bytes of a list can mean a hundred in
/// memory, so that it is read with limits, transaction by transaction.
fn leave_unread(files: &mut FileDescriptorSet, message: &str, field: &str) -> Result<(), String> {
    let messages = files.file.iter_mut().flat_map(|file| &mut file.message_type);
    let mut fields = messages.filter(|found| found.name() == message).flat_map(|found| &mut found.field);
    let found = fields.find(|found| found.name() == field).ok_or(format!("no {message}.{field}"))?;
    found.set_type(Type::Bytes);
    found.type_name = None;
    Ok(())
}
