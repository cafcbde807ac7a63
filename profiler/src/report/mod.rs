//! A profile for people and for programs. Pure: writers are given, terminals are the caller's business.

pub mod json;
pub mod live;
pub mod text;
mod words;
