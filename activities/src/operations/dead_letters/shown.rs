use serde_json::{Value, json};
use tidings_model::{decode::decode_again, records::KeptLetter, without_addresses};

/// The letter without its payload, and what an emission would do, in JSON.
#[must_use]
pub fn shown(letter: &KeptLetter) -> Value {
    let mut shown = json!(letter.record);
    shown["kept"] = letter.head.len().into();
    match decode_again(letter) {
        Ok(again) => shown["keys"] = again.keys.iter().map(ToString::to_string).collect(),
        Err(why) => shown["refused"] = without_addresses(&why).into(),
    }
    shown
}
