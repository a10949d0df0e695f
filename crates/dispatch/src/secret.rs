//! The text of API keys: `weft_<id>_<secret>`, where the secret ends in a checksum, so that a scanner of leaked secrets
//! can tell a key from a word that looks like one. Only a MAC of the secret is ever stored.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::fmt;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ID_LEN: usize = 8;
/// 256 bits in base 62.
const SECRET_LEN: usize = 43;
const SUM_LEN: usize = 6;

/// The key of the whole deployment, from which all others are derived. Never shown.
#[derive(Clone)]
pub struct MasterKey([u8; 32]);

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(***)")
    }
}

impl MasterKey {
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// From base64 text of exactly 32 bytes.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = data_encoding::BASE64.decode(text.trim().as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }

    pub fn to_text(&self) -> String {
        data_encoding::BASE64.encode(&self.0)
    }

    /// Distinguishes the secret from others, and may be shown.
    pub fn fingerprint(&self) -> [u8; 8] {
        let whole = mac(&self.0, &[b"weft master key"]);
        whole[..8].try_into().expect("secret: a MAC has 32 bytes")
    }

    /// What makes MACs of API keys.
    pub fn macs(&self) -> Macs {
        Macs(mac(&self.0, &[b"weft api keys"]))
    }
}

/// Makes and checks MACs of secrets.
#[derive(Clone)]
pub struct Macs([u8; 32]);

impl Macs {
    pub fn of(&self, key: &KeyText) -> [u8; 32] {
        mac(&self.0, &[key.id.as_bytes(), key.secret.as_bytes()])
    }

    /// Compares in constant time.
    pub fn fits(&self, key: &KeyText, stored: &[u8; 32]) -> bool {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("secret: a MAC takes a key of any length");
        for part in [key.id.as_bytes(), key.secret.as_bytes()] {
            mac.update(part);
        }
        mac.verify_slice(stored).is_ok()
    }
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("secret: a MAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// A key as its owner has it.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText {
    pub id: String,
    secret: String,
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "weft_{}_***", self.id)
    }
}

impl KeyText {
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 40];
        getrandom::fill(&mut bytes)?;
        let (id, secret) = bytes.split_at(8);
        let id = base62(id, 11)[11 - ID_LEN..].to_string();
        Ok(Self { secret: base62(secret, SECRET_LEN), id })
    }

    /// The same id with another secret.
    pub fn rotated(id: &str) -> Result<Self, getrandom::Error> {
        Ok(Self { id: id.to_string(), ..Self::random()? })
    }

    /// From `weft_<id>_<secret><checksum>`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, rest) = text.strip_prefix("weft_")?.split_once('_')?;
        let digits = |text: &str| text.bytes().all(|byte| DIGITS.contains(&byte));
        if id.len() != ID_LEN || rest.len() != SECRET_LEN + SUM_LEN || !digits(id) || !digits(rest) {
            return None;
        }
        let (secret, sum) = rest.split_at(SECRET_LEN);
        let key = Self { id: id.to_string(), secret: secret.to_string() };
        (key.sum() == sum).then_some(key)
    }

    /// The one time it is shown.
    pub fn reveal(&self) -> String {
        format!("weft_{}_{}{}", self.id, self.secret, self.sum())
    }

    fn sum(&self) -> String {
        let digest = Sha256::new().chain_update(&self.id).chain_update(&self.secret).finalize();
        base62(&digest[..4], SUM_LEN)
    }
}

/// The bytes as one large number in base 62, with leading zeros.
fn base62(bytes: &[u8], len: usize) -> String {
    let mut number = bytes.to_vec();
    let mut digits = Vec::with_capacity(len);
    for _ in 0..len {
        let mut rest = 0u32;
        for byte in &mut number {
            let value = rest << 8 | u32::from(*byte);
            *byte = (value / 62) as u8;
            rest = value % 62;
        }
        digits.push(DIGITS[rest as usize] as char);
    }
    digits.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_4_a_key_reads_back_and_one_changed_letter_makes_it_no_key() {
        let key = KeyText::random().unwrap();
        let text = key.reveal();
        assert_eq!(KeyText::parse(&text), Some(key));
        for at in 0..text.len() {
            let mut other = text.clone().into_bytes();
            other[at] = if other[at] == b'x' { b'y' } else { b'x' };
            assert_eq!(KeyText::parse(std::str::from_utf8(&other).unwrap()), None, "letter {at}");
        }
        assert_eq!(KeyText::parse("weft_abc_def"), None);
    }

    #[test]
    fn sec_4_a_mac_fits_its_own_key_under_its_own_master_key_only() {
        let (key, other) = (KeyText::random().unwrap(), KeyText::random().unwrap());
        let master = MasterKey::random().unwrap();
        let stored = master.macs().of(&key);
        assert!(master.macs().fits(&key, &stored));
        assert!(!master.macs().fits(&other, &stored));
        assert!(!master.macs().fits(&KeyText { id: other.id.clone(), ..key.clone() }, &stored));
        assert!(!MasterKey::random().unwrap().macs().fits(&key, &stored));
        assert_eq!(MasterKey::parse(&master.to_text()).unwrap().0, master.0);
    }

    #[test]
    fn secrets_are_not_shown_by_accident() {
        let key = KeyText::random().unwrap();
        assert!(!format!("{key:?}").contains(&key.secret));
        assert_eq!(format!("{:?}", MasterKey::new([7; 32])), "MasterKey(***)");
    }
}
