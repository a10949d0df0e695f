//! The file: a preamble, one header, any number of records, one footer. Big endian throughout.
//!
//! ```text
//! preamble  "weft export\n", version u16
//! frame     type u8, length u32, payload
//!   H       name of the store (length u8, bytes), fingerprint of the master key (length u8, bytes; empty if unknown),
//!           partitions u16, then for each: generation u64, seq u64, now u64
//!   R       partition u16, kind u8, key (length u8, bytes), parts u8, then for each: number u8, length u32, bytes
//!   F       kinds u8, then for each: kind u8, count u64, digest (32 bytes); SHA-256 of all bytes before this frame
//! ```

use super::{Digest, Error, Origin, Raw, Summary, Tally};
use bytes::Bytes;
use sha2::Digest as _;
use sha2::Sha256;
use std::io::{ErrorKind, Read, Write};
use weft_core::change::{Head, Position};
use weft_core::limits::{CHECKPOINT_CEILING, INPUT_CEILING, RESULT_CEILING};
use weft_core::schema::Kind;
use weft_core::{PartitionId, Time};

const MAGIC: &[u8; 12] = b"weft export\n";
pub const VERSION: u16 = 2;

const HEADER: u8 = b'H';
const RECORD: u8 = b'R';
const FOOTER: u8 = b'F';

/// No frame is larger: an execution with all its payloads at their ceilings fits.
const FRAME_BYTES_MAX: usize = 64 << 20;
const _: () = assert!(INPUT_CEILING + RESULT_CEILING + CHECKPOINT_CEILING + (8 << 20) <= FRAME_BYTES_MAX);

/// Writes a file from its beginning to its end.
pub struct Writer<W> {
    sink: W,
    hash: Sha256,
    frame: Vec<u8>,
}

impl<W: Write> Writer<W> {
    pub fn begin(sink: W, origin: &Origin) -> Result<Self, Error> {
        let mut writer = Self { sink, hash: Sha256::new(), frame: Vec::new() };
        writer.put(MAGIC)?;
        writer.put(&VERSION.to_be_bytes())?;
        short(&mut writer.frame, origin.store.as_bytes());
        short(&mut writer.frame, origin.master.as_ref().map_or(&[], |fingerprint| &fingerprint[..]));
        writer.frame.extend((origin.heads.len() as u16).to_be_bytes());
        for head in &origin.heads {
            for number in [head.position.generation, head.position.seq, head.now.ms()] {
                writer.frame.extend(number.to_be_bytes());
            }
        }
        writer.flush_frame(HEADER)?;
        Ok(writer)
    }

    pub fn record(&mut self, record: &Raw) -> Result<(), Error> {
        let frame = &mut self.frame;
        frame.extend(record.partition.0.to_be_bytes());
        frame.push(record.kind as u8);
        short(frame, &record.key);
        frame.push(record.parts.len() as u8);
        for (part, bytes) in &record.parts {
            frame.push(*part);
            frame.extend((bytes.len() as u32).to_be_bytes());
            frame.extend_from_slice(bytes);
        }
        self.flush_frame(RECORD)
    }

    pub fn end(mut self, summary: &Summary) -> Result<W, Error> {
        let whole: [u8; 32] = self.hash.clone().finalize().into();
        self.frame.push(summary.kinds.len() as u8);
        for (kind, tally) in &summary.kinds {
            self.frame.push(*kind as u8);
            self.frame.extend(tally.count.to_be_bytes());
            self.frame.extend(tally.digest.as_bytes());
        }
        self.frame.extend(whole);
        self.flush_frame(FOOTER)?;
        self.sink.flush()?;
        Ok(self.sink)
    }

    fn flush_frame(&mut self, kind: u8) -> Result<(), Error> {
        let frame = std::mem::take(&mut self.frame);
        self.put(&[kind])?;
        self.put(&(frame.len() as u32).to_be_bytes())?;
        self.put(&frame)?;
        self.frame = frame;
        self.frame.clear();
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.hash.update(bytes);
        Ok(self.sink.write_all(bytes)?)
    }
}

/// Bytes behind their length, which is at most 255.
fn short(frame: &mut Vec<u8>, bytes: &[u8]) {
    let length = u8::try_from(bytes.len()).expect("format: keys and names are short");
    frame.push(length);
    frame.extend_from_slice(bytes);
}

/// Reads a file from its beginning to its end.
pub struct Reader<R> {
    source: R,
    hash: Sha256,
    pub origin: Origin,
}

/// What follows in the file.
pub enum Next {
    Record(Raw),
    /// The end, with what the file says it holds.
    End(Summary),
}

impl<R: Read> Reader<R> {
    pub fn begin(mut source: R) -> Result<Self, Error> {
        let mut hash = Sha256::new();
        let mut preamble = [0; MAGIC.len() + 2];
        exact(&mut source, &mut preamble)?;
        hash.update(preamble);
        let (magic, version) = preamble.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(damaged("it is not an export of Weft"));
        }
        match u16::from_be_bytes(version.try_into().expect("format: a version has two bytes")) {
            VERSION => {}
            found if found < VERSION => return Err(Error::Older { found, known: VERSION }),
            found => return Err(Error::Newer { found, known: VERSION }),
        }
        let (kind, bytes) = frame(&mut source)?;
        if kind != HEADER {
            return Err(damaged("it has no header"));
        }
        update(&mut hash, kind, &bytes);
        Ok(Self { source, hash, origin: origin(&mut Fields(bytes))? })
    }

    pub fn next(&mut self) -> Result<Next, Error> {
        let (kind, bytes) = frame(&mut self.source)?;
        match kind {
            RECORD => {
                update(&mut self.hash, kind, &bytes);
                let record = record(&mut Fields(bytes))?;
                match usize::from(record.partition.0) < self.origin.heads.len() {
                    true => Ok(Next::Record(record)),
                    false => Err(damaged("a record is in a partition that the header does not have")),
                }
            }
            FOOTER => {
                let mut fields = Fields(bytes);
                let summary = summary(&mut fields)?;
                let whole: [u8; 32] = self.hash.clone().finalize().into();
                if fields.take(32)? != whole[..] || !fields.0.is_empty() {
                    return Err(damaged("its bytes are not those that were written"));
                }
                match self.source.read(&mut [0])? {
                    0 => Ok(Next::End(summary)),
                    _ => Err(damaged("something follows behind its end")),
                }
            }
            _ => Err(damaged("it has a frame of a type that does not exist")),
        }
    }
}

fn frame(source: &mut impl Read) -> Result<(u8, Bytes), Error> {
    let mut head = [0; 5];
    exact(source, &mut head)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(damaged("it has a frame that is too large"));
    }
    // Grown while bytes arrive, so that a damaged length takes no more memory than the file has bytes.
    let mut bytes = Vec::with_capacity(length.min(1 << 16));
    source.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(cut_off());
    }
    Ok((head[0], bytes.into()))
}

fn update(hash: &mut Sha256, kind: u8, bytes: &[u8]) {
    hash.update([kind]);
    hash.update((bytes.len() as u32).to_be_bytes());
    hash.update(bytes);
}

fn exact(source: &mut impl Read, into: &mut [u8]) -> Result<(), Error> {
    source.read_exact(into).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => cut_off(),
        _ => Error::File(error),
    })
}

fn cut_off() -> Error {
    damaged("it ends in the middle")
}

fn damaged(why: &str) -> Error {
    Error::Damaged(why.to_owned())
}

/// The rest of a payload.
struct Fields(Bytes);

impl Fields {
    fn take(&mut self, length: usize) -> Result<Bytes, Error> {
        match length <= self.0.len() {
            true => Ok(self.0.split_to(length)),
            false => Err(damaged("a frame is shorter than what it holds")),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        Ok(self.take(N)?[..].try_into().expect("format: as many bytes as asked for"))
    }

    fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_be_bytes)
    }

    fn short(&mut self) -> Result<Bytes, Error> {
        let length = self.u8()?;
        self.take(length.into())
    }

    fn kind(&mut self) -> Result<Kind, Error> {
        let number = self.u8()?;
        Kind::from_u8(number).ok_or_else(|| damaged(&format!("it has records of a kind {number} that is not known")))
    }
}

fn origin(fields: &mut Fields) -> Result<Origin, Error> {
    let name = fields.short()?;
    let store = String::from_utf8(name.to_vec()).map_err(|_| damaged("the name of its store is no text"))?;
    let master = match &fields.short()?[..] {
        [] => None,
        bytes => Some(bytes.try_into().map_err(|_| damaged("the fingerprint of its master key is none"))?),
    };
    let mut heads = Vec::new();
    for _ in 0..fields.u16()? {
        let position = Position { generation: fields.u64()?, seq: fields.u64()? };
        heads.push(Head { position, now: Time::from_ms(fields.u64()?), ..Head::default() });
    }
    Ok(Origin { store, master, heads })
}

fn record(fields: &mut Fields) -> Result<Raw, Error> {
    let (partition, kind, key) = (PartitionId(fields.u16()?), fields.kind()?, fields.short()?);
    let mut parts = Vec::new();
    for _ in 0..fields.u8()? {
        let (part, length) = (fields.u8()?, fields.u32()?);
        parts.push((part, fields.take(length as usize)?));
    }
    Ok(Raw { partition, kind, key, parts })
}

fn summary(fields: &mut Fields) -> Result<Summary, Error> {
    let mut summary = Summary::default();
    for _ in 0..fields.u8()? {
        let kind = fields.kind()?;
        let tally = Tally { count: fields.u64()?, digest: Digest::from_bytes(fields.array()?) };
        summary.kinds.insert(kind, tally);
    }
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_22_a_file_of_another_format_is_refused_with_both_formats() {
        let refusal = |version: u16| {
            // A header of the first format, in which two bytes of the number of partitions follow the name.
            let header = [b"\x06memory".as_slice(), &[0, 0]].concat();
            let frame = [&[HEADER][..], &(header.len() as u32).to_be_bytes(), &header].concat();
            let file = [&MAGIC[..], &version.to_be_bytes(), &frame].concat();
            Reader::begin(&file[..]).err().expect("it is refused").to_string()
        };
        let older = "cannot read the file: it has format 1, and this program reads format 2; export the store again with this \
                     program";
        assert_eq!(refusal(1), older);
        let newer = "cannot read the file: it has format 3, and this program reads format 2; use a newer program, or export \
                     the store again with this one";
        assert_eq!(refusal(3), newer);
    }
}
