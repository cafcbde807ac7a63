//! How durations, shares, counts and rates are written: the only place that formats them.

use crate::apportion::apportion;

/// A duration with three significant digits and its unit: `36.9 ms`, `412 µs`, `1.20 s`, `17.0 min`.
pub fn duration(ns: u64) -> String {
    const UNITS: [(f64, &str); 4] = [(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")];
    if ns < 1000 {
        return format!("{ns} ns");
    }
    for (scale, unit) in UNITS {
        let value = ns as f64 / scale;
        // The rounded value decides, so that 999.6 µs becomes 1.00 ms and not 1000 µs.
        if value < 999.5 {
            return format!("{} {unit}", three_digits(value));
        }
    }
    let minutes = ns as f64 / 60e9;
    if minutes < 99.95 {
        return format!("{minutes:.1} min");
    }
    format!("{:.1} h", minutes / 60.0)
}

fn three_digits(value: f64) -> String {
    if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// A duration that may be unknown; unknown is a dash, never a zero.
pub fn duration_or_dash(ns: Option<u64>) -> String {
    ns.map_or_else(|| "–".to_owned(), duration)
}

/// A share of 1 as a percentage with one decimal; what is not zero is not printed as zero.
pub fn share(share: f64) -> String {
    if share > 0.0 && share < 0.0005 { "<0.1 %".to_owned() } else { format!("{:.1} %", share * 100.0) }
}

/// Parts of `total_ns` in one unit with as many decimals, rounded so that the written parts add up to the written
/// total: `(parts, total)`. What is not zero is not written as zero.
pub fn column(parts_ns: &[u64], total_ns: u64) -> (Vec<String>, String) {
    let (step_ns, decimals, unit) = match total_ns {
        0..1_000 => (1, 0, "ns"),
        1_000..1_000_000 => (1, 3, "µs"),
        1_000_000..1_000_000_000 => (1_000, 3, "ms"),
        _ => (1_000_000, 3, "s"),
    };
    let written = |steps: u64| match decimals {
        0 => format!("{steps} {unit}"),
        _ => format!("{}.{:03} {unit}", count(steps / 1000), steps % 1000),
    };
    let steps = apportion(parts_ns, step_ns);
    let parts = parts_ns.iter().zip(&steps).map(|(part_ns, steps)| match steps {
        0 if *part_ns != 0 => format!("<{}", written(1)),
        _ => written(*steps),
    });
    (parts.collect(), written(steps.iter().sum()))
}

/// Parts as percentages of their sum with one decimal, rounded so that they add up to 100.0 %.
pub fn shares(parts: &[u64]) -> Vec<String> {
    let sum: u128 = parts.iter().map(|part| u128::from(*part)).sum();
    // Scaled down far enough that a thousandfold fits; a share needs no more than ten digits.
    let scale = (sum >> 50) as u64 + 1;
    let scaled: Vec<u64> = parts.iter().map(|part| part / scale * 1000).collect();
    let sum = scaled.iter().sum::<u64>() / 1000;
    let steps = apportion(&scaled, sum);
    let written = parts.iter().zip(steps).map(|(part, steps)| match steps {
        0 if *part != 0 => "<0.1 %".to_owned(),
        _ => format!("{}.{} %", steps / 10, steps % 10),
    });
    written.collect()
}

/// A count with thousands separated: `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count and its noun: `1 connection`, `2,000 connections`.
pub fn counted(value: u64, singular: &str, plural: &str) -> String {
    format!("{} {}", count(value), if value == 1 { singular } else { plural })
}

/// A rate per second or an average count: three significant digits, thousands separated: `0.25`, `41.3`, `12,345`.
pub fn rate(value: f64) -> String {
    if value >= 999.5 {
        count(value.round() as u64)
    } else if value == 0.0 {
        "0".to_owned()
    } else if value < 0.005 {
        "<0.01".to_owned()
    } else {
        three_digits(value)
    }
}

/// Bytes per second, in the unit volumes are sold by: `125 MiB/s`.
pub fn bytes_per_s(value: f64) -> String {
    format!("{} MiB/s", rate(value / f64::from(1 << 20)))
}

/// A size with three significant digits and its binary unit: `512 B`, `8.00 KiB`, `125 MiB`.
pub fn bytes(value: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = value;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{value:.0} B") } else { format!("{} {}", three_digits(value), UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        let cases = [
            (0.0, "0 B"),
            (512.0, "512 B"),
            (1000.0, "0.98 KiB"),
            (8192.0, "8.00 KiB"),
            (125.0 * 1024.0 * 1024.0, "125 MiB"),
            (1e15, "909 TiB"),
        ];
        for (value, written) in cases {
            assert_eq!(bytes(value), written, "{value}");
        }
    }

    #[test]
    fn durations_keep_three_digits_across_units() {
        let cases = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (9_994, "9.99 µs"),
            (9_996, "10.0 µs"),
            (412_300, "412 µs"),
            (999_499, "999 µs"),
            (999_600, "1.00 ms"),
            (36_912_345, "36.9 ms"),
            (1_200_000_000, "1.20 s"),
            (999_400_000_000, "999 s"),
            (1_020_000_000_000, "17.0 min"),
            (9_000_000_000_000, "2.5 h"),
        ];
        for (ns, shown) in cases {
            assert_eq!(duration(ns), shown);
        }
        assert_eq!(duration_or_dash(None), "–");
    }

    #[test]
    fn a_small_share_is_not_shown_as_none() {
        assert_eq!(share(0.0), "0.0 %");
        assert_eq!(share(0.000_1), "<0.1 %");
        assert_eq!(share(0.612), "61.2 %");
        assert_eq!(share(1.0), "100.0 %");
    }

    #[test]
    fn a_column_adds_up_as_written() {
        let (parts, total) = column(&[22_600_600, 7_412_600, 6_898_700, 100, 0], 36_912_000);
        assert_eq!(parts, ["22.601 ms", "7.412 ms", "6.899 ms", "<0.001 ms", "0.000 ms"]);
        assert_eq!(total, "36.912 ms");
        assert_eq!(
            column(&[400, 12], 412),
            (vec!["400 ns".to_owned(), "12 ns".to_owned()], "412 ns".to_owned())
        );
        assert_eq!(column(&[1_234_567], 1_234_567).1, "1.235 ms");
        assert_eq!(column(&[55_312], 55_312).1, "55.312 µs");
        assert_eq!(column(&[5_000_000_000_000], 5_000_000_000_000).1, "5,000.000 s");
    }

    #[test]
    fn shares_add_up_as_written() {
        assert_eq!(shares(&[1, 1, 1]), ["33.4 %", "33.3 %", "33.3 %"]);
        assert_eq!(shares(&[999_999, 1, 0]), ["100.0 %", "<0.1 %", "0.0 %"]);
        assert_eq!(shares(&[u64::MAX / 2, u64::MAX / 2]), ["50.0 %", "50.0 %"]);
        assert_eq!(shares(&[0, 0]), ["0.0 %", "0.0 %"]);
    }

    #[test]
    fn counts_and_rates() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "lock", "locks"), "1 lock");
        assert_eq!(counted(2_000, "lock", "locks"), "2,000 locks");
        assert_eq!(rate(0.25), "0.25");
        assert_eq!(rate(0.004), "<0.01");
        assert_eq!(rate(411.5), "412");
        assert_eq!(rate(12_345.4), "12,345");
        assert_eq!(bytes_per_s(131_072_000.0), "125 MiB/s");
    }
}
