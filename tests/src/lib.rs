//! Harness of the end-to-end tests: throw-away PostgreSQL servers, load, oracles, and the `pgstall` under test.
//!
//! The tests in `tests/` need root (they attach eBPF programs) and run one at a time; `cargo xtask test` does both.
//! They find their surroundings through the environment:
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `PGSTALL` | the binary under test | `target/release/pgstall` of the workspace |
//! | `PGSTALL_VOLUME` | the emulated volume's program | `pgstall-volume` beside the tests |
//! | `PGSTALL_TEST_BINDIR` | PostgreSQL's programs | the newest `/usr/lib/postgresql/*/bin`, else the one in `PATH` |
//! | `PGSTALL_TEST_DIR` | where data directories go | the system's temporary directory |
//! | `PGSTALL_TEST_PORT` | first TCP port tried | 5520 |
//! | `PGSTALL_TEST_CACHE` | where other PostgreSQL builds are kept | `target/pg-builds` |
//!
//! Nothing here waits for a fixed time where it can poll with a deadline, and every process and control group made
//! here goes away with the value that owns it.

pub mod poll;

pub mod process;

pub mod environment;

pub mod gate;

pub mod builds;

pub mod diskstats;

pub mod fetch;

pub mod cgroup;

pub mod procfs;

pub mod server;

pub mod volume;

pub mod storage;

pub mod directio;

pub mod fio;

pub mod client;

pub mod load;

pub mod pgbench;

pub mod sysbench;

pub mod profile;

pub mod records;

pub mod attach;

pub mod bpf;

pub mod syscalls;

pub mod checks;

pub mod scenarios;
