//! Devices that give no more than they are allowed to.

use super::{
    evidence::{Evidence, Found},
    facts::{LARGE_PART, ratio},
    storage::storage_part,
};
use crate::model::profile::{Ceiling, Device, Ebs, Profile, Severity};

/// Amazon EBS counts the microseconds over a limit; from this part of the window on, they are no single burst.
const EXCEEDED: f64 = 0.05;

/// A limit of Amazon EBS.
struct Limit {
    /// Whose limit on what.
    what: &'static str,
    /// Name of the time over it.
    evidence: &'static str,
    exceeded_ns: fn(&Ebs) -> u64,
    advice: &'static str,
}

const LIMITS: [Limit; 4] = [
    Limit {
        what: "volume's IOPS limit",
        evidence: "volume_iops_exceeded_ns",
        exceeded_ns: |ebs| ebs.volume_iops_exceeded_ns,
        advice: MORE_IOPS,
    },
    Limit {
        what: "volume's throughput limit",
        evidence: "volume_throughput_exceeded_ns",
        exceeded_ns: |ebs| ebs.volume_throughput_exceeded_ns,
        advice: MORE_THROUGHPUT,
    },
    Limit {
        what: "instance's IOPS limit",
        evidence: "instance_iops_exceeded_ns",
        exceeded_ns: |ebs| ebs.instance_iops_exceeded_ns,
        advice: LARGER_INSTANCE,
    },
    Limit {
        what: "instance's throughput limit",
        evidence: "instance_throughput_exceeded_ns",
        exceeded_ns: |ebs| ebs.instance_throughput_exceeded_ns,
        advice: LARGER_INSTANCE,
    },
];

const MORE_IOPS: &str = "Raise the volume's provisioned IOPS, or ask for less (memory for what is read again and \
                         again, fewer checkpoints); a lower latency alone changes nothing at a ceiling.";
const MORE_THROUGHPUT: &str = "Raise the volume's provisioned throughput, or move less (memory for what is read again \
                               and again, wal_compression).";
const LARGER_INSTANCE: &str =
    "An instance with a higher EBS limit: provisioning more on the volume changes nothing.";

/// A device does not go beyond a rate, however many requests wait.
pub(super) fn device_at_ceiling(profile: &Profile) -> Option<Found> {
    let devices = profile.devices.as_ref()?;
    let found = devices.iter().filter_map(|device| Some((device, reached(device, profile)?)));
    // The one with the most requests waiting is the one that hurts.
    let depth = |device: &Device| device.depth_mean.unwrap_or(0.0);
    let (device, at) = found.max_by(|(one, _), (other, _)| depth(one).total_cmp(&depth(other)))?;
    let mut evidence = Evidence::default();
    let name = evidence.text("device", &device.name);
    let mut message = match at {
        Reached::Seen(ceiling) => {
            let rate = if ceiling.kind == "throughput" {
                evidence.bytes_per_s("ceiling_bytes_per_s", ceiling.per_s)
            } else {
                format!("{} requests a second", evidence.rate("ceiling_per_s", ceiling.per_s))
            };
            let known = ceiling.known_as.as_ref();
            let known = known.map(|known| format!(", which is {}", evidence.text("known_as", known)));
            evidence.text("ceiling_evidence", &ceiling.evidence);
            format!("Device {name} is at its ceiling of {rate}{}", known.unwrap_or_default())
        }
        Reached::Counted(limit, ns) => format!(
            "Amazon EBS counts {} over the {} of {name} in {}",
            evidence.duration(limit.evidence, ns),
            limit.what,
            evidence.duration("window_ns", profile.window.duration_ns)
        ),
    };
    if let Some(depth) = device.depth_mean {
        message.push_str(&format!(", with {} requests at it at a time", evidence.rate("depth_mean", depth)));
    }
    // Where both are there, EBS says whose limit it is.
    let counted = device.ebs.as_ref().and_then(|ebs| exceeded(ebs, profile));
    if let (Reached::Seen(_), Some((limit, ns))) = (at, counted) {
        let ns = evidence.duration(limit.evidence, ns);
        message.push_str(&format!("; Amazon EBS counts {ns} over the {}", limit.what));
    }
    message.push('.');
    let advice = match (at, counted) {
        (_, Some((limit, _))) | (Reached::Counted(limit, _), None) => limit.advice,
        (Reached::Seen(ceiling), None) if ceiling.kind == "throughput" => MORE_THROUGHPUT,
        (Reached::Seen(_), None) => MORE_IOPS,
    };
    let severity = match storage_part(profile) {
        Some(part) if part < LARGE_PART => Severity::Notable,
        _ => Severity::Critical,
    };
    evidence.found(severity, message, advice)
}

/// How a device's ceiling is known.
#[derive(Clone, Copy)]
enum Reached<'a> {
    /// Its rate was flat.
    Seen(&'a Ceiling),
    /// Its own counters say so, and for how long, ns.
    Counted(&'static Limit, u64),
}

fn reached<'a>(device: &'a Device, profile: &Profile) -> Option<Reached<'a>> {
    if let Some(ceiling) = &device.ceiling {
        return Some(Reached::Seen(ceiling));
    }
    let (limit, ns) = exceeded(device.ebs.as_ref()?, profile)?;
    Some(Reached::Counted(limit, ns))
}

/// The limit of EBS that was exceeded longest, if one was for long.
fn exceeded(ebs: &Ebs, profile: &Profile) -> Option<(&'static Limit, u64)> {
    let longest = LIMITS.iter().map(|limit| (limit, (limit.exceeded_ns)(ebs))).max_by_key(|(_, ns)| *ns)?;
    (ratio(longest.1, profile.window.duration_ns)? >= EXCEEDED).then_some(longest)
}
