//! The end of one delivery.

closed_set! {
    /// The end of one delivery.
    pub enum DeliveryResult {
        /// The answer was 2xx.
        Delivered = "delivered",
        /// The answer was another status, a redirect included.
        Refused = "refused",
        /// The answer was 410: the receiver wants no more notices.
        Gone = "gone",
        /// The answer was 429, 502, 503 or 504.
        Busy = "busy",
        /// There was no connection, or it broke off.
        Unreachable = "unreachable",
        /// The time was over.
        TimedOut = "timed_out",
    }
}

impl DeliveryResult {
    /// Returns the result of an answer with this status.
    #[must_use]
    pub const fn of_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Delivered,
            410 => Self::Gone,
            429 | 502..=504 => Self::Busy,
            _ => Self::Refused,
        }
    }

    /// Tells if another notice would fare no better now.
    #[must_use]
    pub const fn is_away(self) -> bool {
        matches!(self, Self::Busy | Self::Unreachable | Self::TimedOut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_2xx_is_delivered_and_only_410_is_gone() {
        for (status, result) in [
            (200, DeliveryResult::Delivered),
            (299, DeliveryResult::Delivered),
            (301, DeliveryResult::Refused),
            (307, DeliveryResult::Refused),
            (400, DeliveryResult::Refused),
            (404, DeliveryResult::Refused),
            (410, DeliveryResult::Gone),
            (429, DeliveryResult::Busy),
            (500, DeliveryResult::Refused),
            (503, DeliveryResult::Busy),
        ] {
            assert_eq!(DeliveryResult::of_status(status), result, "{status}");
        }
        assert!(!DeliveryResult::Refused.is_away() && DeliveryResult::Busy.is_away());
    }
}
