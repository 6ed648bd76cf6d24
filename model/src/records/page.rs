//! Cursor pagination. A cursor is the last row's position in the listing's order, so added or deleted rows
//! make no others repeat or disappear.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Serialize, Serializer, de::DeserializeOwned};

/// A position in a listing ordered by `K`. Callers should treat its text as opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageCursor<K>(pub K);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest<K> {
    pub limit: u32,
    /// The page starts after this position; `None` for the first page.
    pub after: Option<PageCursor<K>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(bound(serialize = "T: Serialize, K: Serialize"))]
pub struct ListPage<T, K> {
    pub rows: Vec<T>,
    /// Set if more rows follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<PageCursor<K>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a cursor of this listing; use the text that ended the previous page, or omit it for the first page")]
pub struct InvalidCursor;

impl<K> Default for PageRequest<K> {
    fn default() -> Self {
        Self { limit: 50, after: None }
    }
}

impl<K> PageRequest<K> {
    #[must_use]
    pub fn rows_to_read(&self) -> i64 {
        i64::from(self.limit) + 1
    }

    #[must_use]
    pub fn build_page<T>(&self, mut rows: Vec<T>, place: impl FnOnce(&T) -> K) -> ListPage<T, K> {
        let limit = self.limit as usize;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(|last| PageCursor(place(last)));
        ListPage { rows, next }
    }
}

impl<K: Serialize> fmt::Display for PageCursor<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = serde_json::to_vec(&self.0).map_err(|_| fmt::Error)?;
        f.write_str(&URL_SAFE_NO_PAD.encode(json))
    }
}

impl<K: DeserializeOwned> FromStr for PageCursor<K> {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidCursor)?;
        serde_json::from_slice(&json).map(Self).map_err(|_| InvalidCursor)
    }
}

impl<K: Serialize> Serialize for PageCursor<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Place = PageCursor<(String, i64)>;

    #[test]
    fn a_cursor_comes_back_from_its_text_and_another_text_is_refused() {
        let cursor = PageCursor(("ü /".to_owned(), -1_i64));
        let text = cursor.to_string();
        assert!(text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)), "{text}");
        assert_eq!(text.parse::<Place>(), Ok(cursor));
        for wrong in ["", "ann", "%", &PageCursor("ann").to_string()] {
            assert_eq!(wrong.parse::<Place>(), Err(InvalidCursor), "{wrong:?}");
        }
    }

    #[test]
    fn a_page_has_a_next_one_only_if_rows_are_left() {
        let page = PageRequest::<i32> { limit: 2, after: None };
        assert_eq!(page.rows_to_read(), 3);
        for (rows, shown, next) in
            [(vec![], vec![], None), (vec![1, 2], vec![1, 2], None), (vec![1, 2, 3], vec![1, 2], Some(PageCursor(2)))]
        {
            assert_eq!(page.build_page(rows, |row| *row), ListPage { rows: shown, next });
        }
    }
}
