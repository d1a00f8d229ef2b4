//! Deliveries in the bytes of a connection, for a test that wants to know what is
//! being handed out right now.

use std::collections::HashMap;

/// Finds bodies of deliveries (AMQP 0-9-1, sections 2.3.5 and 4.2).
#[derive(Default)]
pub(super) struct Deliveries {
    unread: Vec<u8>,
    /// The exchange of the last delivery, by channel.
    exchanges: HashMap<u16, String>,
}

const METHOD: u8 = 1;
const BODY: u8 = 3;
const DELIVER: [u8; 4] = [0, 60, 0, 60];
/// Type, channel and length before the payload, and one byte after it.
const HEAD: usize = 7;

impl Deliveries {
    /// The bodies that are complete with these bytes, each with the exchange that its
    /// message came through.
    pub(super) fn of(&mut self, bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
        self.unread.extend_from_slice(bytes);
        let mut found = Vec::new();
        while let Some(length) = self.frame() {
            let frame: Vec<u8> = self.unread.drain(..length).collect();
            let channel = u16::from_be_bytes([frame[1], frame[2]]);
            let payload = &frame[HEAD..length - 1];
            match frame[0] {
                METHOD if payload.starts_with(&DELIVER) => {
                    // Consumer tag, delivery tag and flag stand before the exchange.
                    let after_tag = &payload[5 + usize::from(payload[4])..];
                    let exchange = &after_tag[9..];
                    let name = &exchange[1..=usize::from(exchange[0])];
                    let name = String::from_utf8_lossy(name).into_owned();
                    self.exchanges.insert(channel, name);
                }
                BODY => {
                    let exchange = self.exchanges.get(&channel).cloned().unwrap_or_default();
                    found.push((exchange, payload.to_vec()));
                }
                _ => {}
            }
        }
        found
    }

    /// The length of the first frame, once all of it is there.
    fn frame(&self) -> Option<usize> {
        let size = self.unread.get(3..HEAD)?;
        let length = HEAD + u32::from_be_bytes(size.try_into().unwrap()) as usize + 1;
        (self.unread.len() >= length).then_some(length)
    }
}
