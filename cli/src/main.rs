//! panthorctl: arguments, tables, JSON and exit codes over the libraries.
fn main() {}
