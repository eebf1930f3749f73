//! Makes Rust of the message descriptions in `api/`: see `src/schema` for the notation and `build/generate.rs` for what
//! becomes of it. Everything about a message is said there once.

#[path = "build/generate.rs"]
mod generate;
#[allow(dead_code, reason = "the crate itself uses the rest")]
#[path = "src/schema/mod.rs"]
mod schema;

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=api");
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-changed=src/schema");
    let schema = schema::all().expect("the descriptions in api/ can be read");
    let out = std::env::var_os("OUT_DIR").expect("cargo says where to write");
    let out = Path::new(&out);
    std::fs::write(out.join("messages.rs"), generate::rust(&schema)).expect("messages.rs written");
    std::fs::write(out.join("info.rs"), generate::info(&schema)).expect("info.rs written");
}
