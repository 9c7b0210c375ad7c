//! Bytes as hexadecimal text in JSON.

use serde::{Deserialize, Deserializer, Serializer};

/// The text of `bytes`.
pub fn text(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes
        .iter()
        .flat_map(|&byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(DIGITS[usize::from(digit)]));
    digits.collect()
}

/// The bytes that `text` spells, `None` where it is no such text.
pub fn bytes(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16);
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| match *pair {
            [high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
            _ => None,
        })
        .collect()
}

/// For serde's `with`.
///
/// # Errors
/// The serializer's.
pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(bytes))
}

/// For serde's `with`.
///
/// # Errors
/// The deserializer's, and text that is not hexadecimal.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    bytes(&text).ok_or_else(|| serde::de::Error::custom("not hexadecimal"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn text_and_bytes_are_each_others_inverse() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(super::bytes(&super::text(&all)).as_deref(), Some(&*all));
        assert_eq!(super::bytes("0"), None);
        assert_eq!(super::bytes("0g"), None);
    }
}
