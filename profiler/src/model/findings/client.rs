//! Transactions that wait for their client.

use profiler_common::bucket::Bucket;

use super::{
    evidence::{Evidence, Found},
    facts::{event, latency_ns, ratio, severity},
};
use crate::model::profile::Profile;

/// From this part of a transaction on, its client decides how long it takes.
const CLIENT_BOUND: f64 = 0.3;
/// A wait for the next command longer than this is no network within a region: the client does something else.
const THINKING_NS: u64 = 5_000_000;

/// The client's next command is what a transaction waits for.
pub(super) fn client_round_trips(profile: &Profile) -> Option<Found> {
    let reads = event(profile, Bucket::Client, "Client", "ClientRead")?;
    let latency_ns = latency_ns(profile)?;
    let part = ratio(reads.mean_ns, latency_ns).filter(|part| *part >= CLIENT_BOUND)?;
    let trips = ratio(reads.waits, profile.transactions.count)?;
    let each_ns = (reads.mean_ns as f64 / trips) as u64;
    let mut evidence = Evidence::default();
    let message = format!(
        "Waiting for the client's next command is {} of a transaction ({} of {}): {} round trips of {} each.",
        evidence.share("client_read_share", part),
        evidence.duration("client_read_mean_ns", reads.mean_ns),
        evidence.duration("latency_mean_ns", latency_ns),
        evidence.rate("round_trips_per_transaction", trips),
        evidence.duration("round_trip_mean_ns", each_ns)
    );
    let advice = if each_ns >= THINKING_NS {
        "Let the application do what it does between its statements before or after the transaction; fewer statements, \
         or a client nearer to the server, where it is the network."
    } else {
        "Send the statements of a transaction together (pipeline, function, several rows in one INSERT), or move the \
         client nearer to the server; nothing in the server makes this shorter."
    };
    evidence.found(severity(part), message, advice)
}
