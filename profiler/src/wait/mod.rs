//! PostgreSQL's wait events: their names per major version, and the one table that maps them to buckets.

mod buckets;
mod class;
mod name;
mod names;

pub use buckets::{bucket, bucket_table, charge_table};
pub use class::class_name;
pub use name::{EventName, name, name_of_index};
