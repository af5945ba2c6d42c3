//! Medians and quartiles.

/// Median and quartiles of some figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

impl Spread {
    /// That of these figures; `None` of none.
    pub fn of(figures: &[f64]) -> Option<Self> {
        if figures.is_empty() {
            return None;
        }
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part| quantile(&sorted, part);
        Some(Self {
            low: at(0.25),
            median: at(0.5),
            high: at(0.75),
        })
    }
}

/// Median; sorts the figures, of which there must be one.
pub fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    quantile(figures, 0.5)
}

/// The figure below which a part of them lies; linear between the two that are nearest.
pub fn quantile(sorted: &[f64], part: f64) -> f64 {
    let place = part * (sorted.len() - 1) as f64;
    let (below, above) = (
        sorted[place.floor() as usize],
        sorted[place.ceil() as usize],
    );
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_figures() {
        let spread = Spread::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(
            spread,
            Spread {
                low: 1.75,
                median: 2.5,
                high: 3.25
            }
        );
        assert_eq!(Spread::of(&[]), None);
    }
}
