//! What the devices did, made of the sums of their requests.

mod ceiling;
mod sums;
mod users;

use profiler_common::block::{OPERATIONS, OperationTotals, operation};

use super::{
    histogram::Distribution,
    profile::{Device, Interval, IntervalDevice, Latency, Operation, Place},
    statements::share,
    timeline::per_second,
};

pub use sums::DeviceSums;
pub use users::user_name;

/// Names of the kinds of requests, in the order of [`operation`].
const OPERATION_NAMES: [&str; OPERATIONS] = ["read", "write", "flush", "discard"];

/// What a device is, as far as it says.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceIdentity {
    /// The kernel's name.
    pub name: String,
    /// Major and minor number.
    pub number: (u32, u32),
    /// What it calls itself.
    pub model: Option<String>,
    /// Size, bytes.
    pub size_bytes: Option<u64>,
    /// The kernel's I/O scheduler for it.
    pub scheduler: Option<String>,
    /// What of the server lives on it.
    pub holds: Vec<Place>,
}

/// Makes the device's entry. `sums` is what it did in the window, `None` where its requests could not be seen; `users`
/// are the names of its users by index.
pub fn device(
    identity: &DeviceIdentity,
    sums: Option<&DeviceSums>,
    duration_ns: u64,
    timeline: &[Interval],
    users: &dyn Fn(u32) -> Option<String>,
) -> Device {
    let (major, minor) = identity.number;
    let mut device = Device {
        name: identity.name.clone(),
        number: format!("{major}:{minor}"),
        model: identity.model.clone(),
        size_bytes: identity.size_bytes,
        scheduler: identity.scheduler.clone(),
        holds: identity.holds.clone(),
        operations: Vec::new(),
        depth_mean: None,
        depth_max: None,
        utilisation: None,
        users: Vec::new(),
        ceiling: None,
        ebs: None,
    };
    let Some(sums) = sums else { return device };
    let course: Vec<&IntervalDevice> =
        timeline.iter().filter_map(|interval| of(interval, identity)).collect();
    device.operations = operations(sums, duration_ns);
    device.depth_mean = ratio(sums.device_ns(), duration_ns);
    device.depth_max = Some(sums.in_flight_max);
    device.utilisation = share(sums.busy_ns.min(duration_ns), duration_ns);
    device.users = users::users(sums, users);
    device.ceiling = ceiling::ceiling(sums, &course);
    device
}

/// What the device did in one interval; `sums` need no distributions.
pub fn interval(name: &str, sums: &DeviceSums, duration_ns: u64) -> IntervalDevice {
    let of = |operation: u32| &sums.totals.operations[operation as usize];
    let (reads, writes) = (of(operation::READ), of(operation::WRITE));
    IntervalDevice {
        device: name.to_owned(),
        reads_per_s: per_second(reads.count, duration_ns),
        writes_per_s: per_second(writes.count, duration_ns),
        flushes_per_s: per_second(of(operation::FLUSH).count, duration_ns),
        bytes_per_s: per_second(reads.bytes + writes.bytes, duration_ns),
        depth_mean: ratio(sums.device_ns(), duration_ns).unwrap_or(0.0),
        utilisation: share(sums.busy_ns.min(duration_ns), duration_ns).unwrap_or(0.0),
    }
}

fn of<'a>(interval: &'a Interval, identity: &DeviceIdentity) -> Option<&'a IntervalDevice> {
    interval.devices.iter().find(|device| device.device == identity.name)
}

fn operations(sums: &DeviceSums, duration_ns: u64) -> Vec<Operation> {
    let mut operations = Vec::new();
    for (at, totals) in sums.totals.operations.iter().enumerate() {
        let is_flush = at == operation::FLUSH as usize;
        let asked = if is_flush { sums.totals.flushes_asked } else { 0 };
        if totals.count == 0 && sums.requeued[at] == 0 && asked == 0 {
            continue;
        }
        operations.push(Operation {
            operation: OPERATION_NAMES[at].to_owned(),
            count: totals.count,
            per_s: per_second(totals.count, duration_ns),
            bytes: totals.bytes,
            bytes_per_s: per_second(totals.bytes, duration_ns),
            latency_ns: latency(sums, at, totals),
            queue_mean_ns: totals.queue_ns.checked_div(totals.queued),
            requeued: sums.requeued[at],
            failed: totals.failed,
            asked: (is_flush && asked != 0).then_some(asked),
        });
    }
    operations
}

fn latency(sums: &DeviceSums, at: usize, totals: &OperationTotals) -> Latency {
    let Some(histogram) = sums.latency.get(at) else { return Latency::default() };
    let min = (totals.min_inverted_ns != 0).then(|| u64::MAX - totals.min_inverted_ns);
    let max = (totals.max_ns != 0).then_some(totals.max_ns);
    let times = Distribution::new(histogram).within(min, max);
    Latency {
        mean: totals.device_ns.checked_div(totals.count),
        stddev: times.stddev_ns(),
        min: min.filter(|_| totals.count != 0),
        p50: times.quantile(0.50),
        p90: times.quantile(0.90),
        p95: times.quantile(0.95),
        p99: times.quantile(0.99),
        p999: times.quantile(0.999),
        max: max.filter(|_| totals.count != 0),
    }
}

/// A quotient with four decimals; `None` if there is nothing to divide by.
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole != 0).then(|| (part as f64 / whole as f64 * 1e4).round() / 1e4)
}

#[cfg(test)]
mod tests;
