//! Compiles `tidings/v1/*.proto` to prost types and their proto3-JSON mapping, without protoc.

use std::{env, path::PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = "tidings/v1/event.proto";
    println!("cargo:rerun-if-changed={file}");
    let descriptors = protox::compile([file], ["."])?;

    prost_build::Config::new()
        .compile_well_known_types()
        .btree_map(["."])
        .extern_path(".google.protobuf.Timestamp", "crate::Timestamp")
        .extern_path(".google.protobuf.Struct", "crate::Payload")
        .extern_path(".google.protobuf", "::pbjson_types")
        .compile_fds(descriptors.clone())?;

    let mut json = pbjson_build::Builder::new();
    for descriptor in descriptors.file {
        json.register_file_descriptor(descriptor);
    }
    json.btree_map(["."])
        .preserve_proto_field_names()
        .extern_path(".google.protobuf.Timestamp", "crate::Timestamp")
        .extern_path(".google.protobuf.Struct", "crate::Payload")
        .extern_path(".google.protobuf", "::pbjson_types")
        .out_dir(PathBuf::from(env::var("OUT_DIR")?))
        .build(&[".tidings"])?;
    Ok(())
}
