//! Pages built field by field from the documented layout, and whatever else may come.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use proptest::prelude::*;

use super::*;

/// The counters in the order of the page, and histograms of (lower, upper, count).
fn page(counters: [u64; 11], reads: &[(u64, u64, u32)], writes: &[(u64, u64, u32)]) -> Vec<u8> {
    let mut page = Vec::new();
    page.extend(0x3C23B510_u32.to_le_bytes());
    page.extend([0; 4]);
    for counter in counters {
        page.extend(counter.to_le_bytes());
    }
    page.extend([0; 416]);
    for histogram in [reads, writes] {
        page.extend((histogram.len() as u64).to_le_bytes());
        for at in 0..64 {
            let (lower, upper, count) = histogram.get(at).copied().unwrap_or_default();
            page.extend(lower.to_le_bytes());
            page.extend(upper.to_le_bytes());
            page.extend(count.to_le_bytes());
            page.extend([0; 4]);
        }
    }
    page.extend([0; 496]);
    assert_eq!(page.len(), 4096);
    page
}

#[test]
fn what_happened_between_two_pages() {
    let then = page(
        [100, 200, 4096, 8192, 50_000, 70_000, 1_000, 2_000, 3_000, 4_000, 9],
        &[(0, 1, 0), (512, 1024, 7), (1024, u64::MAX, 4_294_967_295)],
        &[(0, 1, 5)],
    );
    let now = page(
        [130, 260, 8192, 16384, 65_000, 99_000, 1_500, 2_000, 3_007, 4_001, 3],
        &[(0, 1, 0), (512, 1024, 17), (1024, u64::MAX, 4)],
        &[(0, 2, 9)],
    );
    let ebs = EbsCounters::parse(&now).unwrap().since(&EbsCounters::parse(&then).unwrap());
    assert_eq!((ebs.reads, ebs.writes), (30, 60));
    assert_eq!((ebs.read_bytes, ebs.write_bytes), (4096, 8192));
    assert_eq!((ebs.read_time_ns, ebs.write_time_ns), (15_000_000, 29_000_000));
    assert_eq!((ebs.volume_iops_exceeded_ns, ebs.volume_throughput_exceeded_ns), (500_000, 0));
    assert_eq!((ebs.instance_iops_exceeded_ns, ebs.instance_throughput_exceeded_ns), (7_000, 1_000));
    assert_eq!(ebs.queue_length, 3);
    let expected = [
        EbsBin { from_ns: 512_000, to_ns: Some(1_024_000), count: 10 },
        // The counter wrapped, and the last bin has no end.
        EbsBin { from_ns: 1_024_000, to_ns: None, count: 5 },
    ];
    assert_eq!(ebs.read_latency, expected);
    assert_eq!(ebs.write_latency, [], "bins whose bounds moved cannot be compared");
}

#[test]
fn other_pages_are_refused_with_what_was_found() {
    let refused = |page: &[u8]| EbsCounters::parse(page).unwrap_err().to_string();
    let good = page([0; 11], &[], &[]);
    assert_eq!(refused(&good[..4095]), "the page has 4095 bytes, 4096 are needed");
    assert_eq!(refused(&[]), "the page has 0 bytes, 4096 are needed");
    assert_eq!(refused(&[0; 4096]), "the page begins with 0x00000000, not 0x3c23b510");
    let mut full = good;
    full[2056] = 65;
    assert_eq!(refused(&full), "a histogram of the page has 65 bins, at most 64 fit");
}

#[test]
fn only_ebs_volumes_are_asked() {
    let device = |name: &str, model: Option<&str>| BlockDevice {
        name: name.to_owned(),
        number: (259, 4_000_000),
        partitions: Vec::new(),
        model: model.map(str::to_owned),
        size_bytes: None,
        scheduler: None,
        rotational: None,
        has_requests: true,
        places: Vec::new(),
    };
    assert!(read(&device("vda", None)).is_none());
    assert!(read(&device("nvme1n1", Some("Amazon EC2 NVMe Instance Storage"))).is_none());
    let refused = |name: &str| format!("{:#}", read(&device(name, Some(MODEL))).unwrap().unwrap_err());
    let absent = refused("nvme999n1");
    assert!(absent.starts_with("the counters of the EBS volume nvme999n1 are not known: "), "{absent}");
    assert!(absent.contains("inside a container, give it the device node"), "{absent}");
    assert!(refused("null").ends_with("/dev/null is not the device 259:4000000"));
}

proptest! {
    #[test]
    fn nothing_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..5000), is_marked: bool, few: bool) {
        if is_marked && bytes.len() >= 4 {
            bytes[..4].copy_from_slice(&0x3C23B510_u32.to_le_bytes());
        }
        if few && bytes.len() >= 4096 {
            bytes[512..520].copy_from_slice(&64_u64.to_le_bytes());
            bytes[2056..2064].copy_from_slice(&63_u64.to_le_bytes());
        }
        if let Ok(counters) = EbsCounters::parse(&bytes) {
            prop_assert!(is_marked);
            let _ = counters.since(&EbsCounters::default());
            let _ = EbsCounters::default().since(&counters);
            prop_assert_eq!(counters.since(&counters).reads, 0);
        }
    }
}
