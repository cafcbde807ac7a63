//! The `pgstall` command.

fn main() {}
