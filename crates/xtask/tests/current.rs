//! What `make lint` asks of what is generated and of licences, as a test: it is built with the others.

use std::process::Command;

/// Runs a chore, which fails by its exit status.
fn passes(chore: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_tierscope-xtask")).arg(chore).output();
    let output = output.unwrap_or_else(|why| panic!("{chore}: {why}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{chore}:\n{said}");
    assert!(!output.stdout.is_empty(), "{chore} says nothing of what it has checked");
}

#[test]
fn what_is_generated_is_what_the_types_say() {
    passes("check");
}

#[test]
fn the_recorder_has_no_licence_that_qemu_forbids() {
    passes("licences");
}
