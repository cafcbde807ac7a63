//! Devices made of invented sums.

use profiler_common::{
    block::{UserTotals, user},
    histogram::{HISTOGRAM_BUCKETS, Histogram, bucket_of},
};

use super::*;

const SECOND: u64 = 1_000_000_000;

fn identity() -> DeviceIdentity {
    DeviceIdentity {
        name: "nvme1n1".to_owned(),
        number: (259, 1),
        model: None,
        size_bytes: None,
        scheduler: None,
        holds: Vec::new(),
    }
}

/// Reads of 8 KiB that took these times, ns, and were in the queue for a fifth of that.
fn reads(times: &[u64]) -> DeviceSums {
    let none = Histogram { counts: [0; HISTOGRAM_BUCKETS] };
    let mut sums = DeviceSums { latency: vec![none; OPERATIONS], ..DeviceSums::default() };
    for ns in times {
        let totals = &mut sums.totals.operations[0];
        totals.count += 1;
        totals.bytes += 8192;
        totals.device_ns += ns;
        totals.queued += 1;
        totals.queue_ns += ns / 5;
        totals.max_ns = totals.max_ns.max(*ns);
        totals.min_inverted_ns = totals.min_inverted_ns.max(u64::MAX - ns);
        sums.latency[0].counts[bucket_of(*ns)] += 1;
    }
    sums.busy_ns = SECOND / 2;
    sums.in_flight_max = 7;
    sums
}

fn name(index: u32) -> Option<String> {
    user_name(index, &|number| (number == 4).then(|| "client backend".to_owned()))
}

#[test]
fn rates_times_and_depth_come_from_the_sums() {
    let sums = reads(&[400_000; 1000]);
    let device = device(&identity(), Some(&sums), SECOND, &[], &name);
    let [read] = &device.operations[..] else { panic!("only reads: {:?}", device.operations) };
    assert_eq!(
        (read.operation.as_str(), read.count, read.per_s, read.bytes),
        ("read", 1000, 1000.0, 8_192_000)
    );
    assert_eq!((read.latency_ns.mean, read.latency_ns.p99), (Some(400_000), Some(400_000)));
    assert_eq!((read.queue_mean_ns, read.asked), (Some(80_000), None));
    // Little: 1,000 a second of 0.4 ms each.
    assert_eq!((device.depth_mean, device.depth_max, device.utilisation), (Some(0.4), Some(7), Some(0.5)));
    assert_eq!(device.number, "259:1");
}

#[test]
fn a_device_that_was_not_seen_has_no_figures() {
    let device = device(&identity(), None, SECOND, &[], &name);
    assert_eq!((device.depth_mean, device.depth_max, device.utilisation), (None, None, None));
    assert!(device.operations.is_empty() && device.users.is_empty());
}

#[test]
fn flushes_tell_how_many_asked_for_them() {
    let mut sums = DeviceSums::default();
    sums.totals.operations[operation::FLUSH as usize].count = 10;
    sums.totals.flushes_asked = 25;
    let device = device(&identity(), Some(&sums), SECOND, &[], &name);
    assert_eq!((device.operations[0].operation.as_str(), device.operations[0].asked), ("flush", Some(25)));
    assert_eq!(device.operations[0].queue_mean_ns, None, "no submission was seen");
}

#[test]
fn users_have_names_and_a_share() {
    let mut sums = reads(&[100_000; 100]);
    let of = |device_ns, writes| UserTotals { device_ns, writes, reads: 1, ..UserTotals::default() };
    sums.users = vec![
        (user::BACKEND_TYPE + 4, of(2_500_000, 3)),
        (user::JBD2, of(7_000_000, 0)),
        (user::BACKEND_TYPE + 9, of(200_000, 0)),
        (user::UNKNOWN, of(100_000, 0)),
        (user::OTHER_PROCESS, of(200_000, 0)),
    ];
    let device = device(&identity(), Some(&sums), SECOND, &[], &name);
    let names: Vec<Option<&str>> = device.users.iter().map(|user| user.user.as_deref()).collect();
    assert_eq!(names[..2], [Some("kernel: jbd2"), Some("client backend")]);
    assert!(names.contains(&Some("other processes")) && names.contains(&None), "{names:?}");
    assert_eq!(names.len(), 4, "those without a name are one");
    assert_eq!(device.users[1].share, Some(0.25));
}

#[test]
fn the_difference_of_two_readings_is_what_came_between() {
    let (first, mut both) = (reads(&[100_000; 10]), reads(&[100_000; 30]));
    both.users = vec![(user::KERNEL, UserTotals { reads: 3, ..UserTotals::default() })];
    let mut before = first.clone();
    before.users = both.users.clone();
    let between = both.minus(&before);
    assert_eq!((between.totals.operations[0].count, between.device_ns()), (20, 2_000_000));
    assert_eq!(between.latency[0].counts.iter().sum::<u64>(), 20);
    assert!(between.users.is_empty(), "did nothing in between");
    assert_eq!(between.totals.operations[0].max_ns, 0, "the extreme is the earlier stretch's");
}

/// A course of intervals with these rates and depths.
fn course(points: &[(f64, f64)]) -> Vec<Interval> {
    let points = points.iter().map(|(reads_per_s, depth_mean)| {
        let mut interval = crate::model::timeline::interval(0, SECOND, &Default::default());
        interval.devices.push(IntervalDevice {
            device: "nvme1n1".to_owned(),
            reads_per_s: *reads_per_s,
            writes_per_s: 0.0,
            flushes_per_s: 0.0,
            bytes_per_s: reads_per_s * 8192.0,
            depth_mean: *depth_mean,
            utilisation: 1.0,
        });
        interval
    });
    points.collect()
}

fn found(points: &[(f64, f64)], times: &[u64]) -> Option<(String, f64, Option<String>)> {
    let sums = reads(times);
    let device = device(&identity(), Some(&sums), SECOND, &course(points), &name);
    device.ceiling.map(|ceiling| (ceiling.kind, ceiling.per_s, ceiling.known_as))
}

#[test]
fn a_rate_that_does_not_follow_the_depth_is_a_ceiling() {
    let capped =
        [(2990.0, 8.0), (3010.0, 30.0), (3000.0, 12.0), (2995.0, 20.0), (3001.0, 9.0), (3000.0, 25.0)];
    let known = Some("gp3 baseline (3,000 IOPS)".to_owned());
    assert_eq!(found(&capped, &[1_000_000; 100]), Some(("iops".to_owned(), 3000.0, known)));
    // An unknown one, at an even depth, where requests wait inside the device.
    let even = [(1234.0, 8.0); 6];
    let times = [vec![6_500_000; 99], vec![500_000]].concat();
    assert_eq!(found(&even, &times), Some(("iops".to_owned(), 1234.0, None)));
}

#[test]
fn a_steady_rate_of_a_steady_load_is_none() {
    // Eight clients on a device that takes half a millisecond each time.
    assert_eq!(found(&[(15_500.0, 8.0); 8], &[500_000; 100]), None);
    // The rate follows the depth.
    let follows = [(4000.0, 2.0), (8000.0, 4.0), (16_000.0, 8.0), (6000.0, 3.0), (10_000.0, 5.0)];
    assert_eq!(found(&follows, &[500_000; 100]), None);
    // Nothing waits, too short, and mostly idle.
    assert_eq!(found(&[(3000.0, 0.9); 8], &[300_000; 100]), None);
    assert_eq!(found(&[(3000.0, 9.0); 4], &[3_000_000; 100]), None);
    let short = [vec![(3000.0, 9.0); 5], vec![(200.0, 0.4); 20]].concat();
    assert_eq!(found(&short, &[3_000_000; 100]), None);
}
