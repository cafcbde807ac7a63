//! Rounding that keeps sums.

/// Divides `parts` by `divisor` so that the quotients add up to the rounded quotient of the sum: each is rounded
/// down, and what is missing goes one by one to the largest remainders (the earlier of equals first).
///
/// Zero divided by anything stays zero; a divisor of zero gives zeros.
pub fn apportion(parts: &[u64], divisor: u64) -> Vec<u64> {
    if divisor == 0 {
        return vec![0; parts.len()];
    }
    let sum: u128 = parts.iter().map(|part| u128::from(*part)).sum();
    let target = (sum + u128::from(divisor) / 2) / u128::from(divisor);
    let mut quotients: Vec<u64> = parts.iter().map(|part| part / divisor).collect();
    let given: u128 = quotients.iter().map(|quotient| u128::from(*quotient)).sum();
    let missing = usize::try_from(target - given).unwrap_or(usize::MAX);
    let mut by_remainder: Vec<usize> = (0..parts.len()).collect();
    by_remainder.sort_by_key(|at| std::cmp::Reverse(parts[*at] % divisor));
    for at in by_remainder.into_iter().take(missing) {
        quotients[at] += 1;
    }
    quotients
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn thirds_add_up() {
        assert_eq!(apportion(&[10, 10, 10], 3), [4, 3, 3]);
        assert_eq!(apportion(&[1, 1, 0], 2), [1, 0, 0]);
        assert_eq!(apportion(&[5, 5], 0), [0, 0]);
        assert_eq!(apportion(&[u64::MAX, u64::MAX], 1), [u64::MAX, u64::MAX]);
    }

    proptest! {
        #[test]
        fn quotients_add_up_and_none_is_off_by_one(
            parts in prop::collection::vec(0u64..1 << 50, 1..12), divisor in 1u64..1 << 30
        ) {
            let quotients = apportion(&parts, divisor);
            let sum: u64 = parts.iter().sum();
            let rounded = (u128::from(sum) + u128::from(divisor) / 2) / u128::from(divisor);
            prop_assert_eq!(u128::from(quotients.iter().sum::<u64>()), rounded);
            for (quotient, part) in quotients.iter().zip(&parts) {
                prop_assert!(*quotient == part / divisor || *quotient == part / divisor + 1);
                prop_assert!(*part != 0 || *quotient == 0);
            }
        }
    }
}
