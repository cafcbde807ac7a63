//! What the running kernel offers: structure offsets and tracepoints from its own BTF, features found by trying them,
//! and the border signal chosen from those. Reads only; knows no server.

pub mod block;
pub mod border;
pub mod btf;
pub mod features;
pub mod privilege;
pub mod simulate;
