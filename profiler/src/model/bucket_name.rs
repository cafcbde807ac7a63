//! A bucket as the profile writes it: its stable name.

use std::borrow::Cow;

use profiler_common::bucket::Bucket;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A [`Bucket`] that serialises as its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BucketName(pub Bucket);

impl Serialize for BucketName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

impl<'de> Deserialize<'de> for BucketName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = Cow::<str>::deserialize(deserializer)?;
        let bucket = Bucket::ALL.into_iter().find(|bucket| bucket.name() == found);
        bucket
            .map(BucketName)
            .ok_or_else(|| de::Error::custom(format!("found bucket {found:?}, need one of {NAMES}")))
    }
}

const NAMES: &str =
    "page_read, wal_fsync, lock, cpu, run_queue, client, replication, other_io, other_wait, unattributed";

impl JsonSchema for BucketName {
    fn schema_name() -> Cow<'static, str> {
        "Bucket".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Where a stretch of time went.",
            "type": "string",
            "enum": Bucket::ALL.map(Bucket::name),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_survives_a_round_trip_and_is_named_in_the_error() {
        for bucket in Bucket::ALL {
            let json = serde_json::to_string(&BucketName(bucket)).expect("a string");
            assert_eq!(json, format!("\"{}\"", bucket.name()));
            assert_eq!(serde_json::from_str::<BucketName>(&json).expect("its own name"), BucketName(bucket));
            assert!(NAMES.contains(bucket.name()));
        }
        let error = serde_json::from_str::<BucketName>("\"disk\"").expect_err("no such bucket");
        assert!(error.to_string().contains("found bucket \"disk\", need one of page_read"), "{error}");
    }
}
