//! Bytes that are no message: whatever a client sends to a unary method, it is told that it is the client's doing.

use super::support::Bench;
use crate::grpc::channel::Channel;
use crate::grpc::wire::{GetBalanceRequest, GetProofRequest, GetReceiptRequest, GetStatusRequest};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use prost::Message as _;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tower_service::Service as _;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let length = self.next() % most;
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

/// A message in its frame ("gRPC over HTTP2", `Length-Prefixed-Message`).
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &length, message].concat()
}

/// What a body is answered with.
async fn answered(channel: &mut Channel, bench: &Bench, path: &str, body: Vec<u8>) -> Status {
    let request = http::Request::post(format!("{}{path}", bench.url()))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("authorization", format!("Bearer {}", bench.token.reveal()))
        .body(tonic::body::Body::new(Full::new(Bytes::from(body)).map_err(|never| match never {})))
        .unwrap();
    let answer = channel.call(request).await.unwrap();
    if let Some(status) = Status::from_header_map(answer.headers()) {
        return status;
    }
    let body = answer.into_body().collect().await.unwrap();
    Status::from_header_map(body.trailers().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn whatever_comes_is_the_clients_doing() {
    let bench = Bench::with(|settings| settings.http.request_timeout_ms = 300, |_| ());
    let stream = tokio::net::TcpStream::connect(bench.address).await.unwrap();
    let mut channel = Channel::open(stream).await.unwrap();
    let (transaction, text) = ("0c1b2d3e-4f50-4a61-8b72-93a4b5c6d7e8".to_owned(), "ALPHDEFF".to_owned());
    let balance =
        GetBalanceRequest { institution: text.clone(), account: "account-0".to_owned(), consistency: 2 };
    let status = GetStatusRequest { transaction: transaction.clone() }.encode_to_vec();
    let proof = GetProofRequest { transaction: transaction.clone(), legs: vec![text] }.encode_to_vec();
    let receipt = GetReceiptRequest { transaction }.encode_to_vec();
    let service = HealthCheckRequest { service: "tallystick.v1.Settlement".to_owned() }.encode_to_vec();
    let mut random = Random(11);
    // As descriptor.proto numbers wire types, 7 is none; a field of length 5 that ends early; text that is not UTF-8.
    let broken: [&[u8]; 4] = [&[0x0f], &[0x0a, 5, b'a'], &[0x0a, 1, 0xff], &[0x0a]];
    for (path, message) in [
        ("/tallystick.v1.Settlement/GetStatus", &status),
        ("/tallystick.v1.Settlement/GetReceipt", &receipt),
        ("/tallystick.v1.Settlement/GetProof", &proof),
        ("/tallystick.v1.Settlement/GetBalance", &balance.encode_to_vec()),
        ("/grpc.health.v1.Health/Check", &service),
    ] {
        for bytes in broken {
            let refused = answered(&mut channel, &bench, path, framed(bytes)).await;
            assert_eq!(refused.code(), Code::InvalidArgument, "{path} {bytes:?}: {refused:?}");
        }
        // Frames that are none: nothing at all, a length without its message, compressed, a flag that there is not.
        let mut flagged = framed(message);
        let no_frames = [
            Vec::new(),
            vec![0],
            vec![0, 0, 0, 0, 9, 1],
            {
                flagged[0] = 1;
                flagged.clone()
            },
            {
                flagged[0] = 9;
                flagged.clone()
            },
        ];
        for bytes in no_frames {
            let refused = answered(&mut channel, &bench, path, bytes.clone()).await;
            let codes = [Code::InvalidArgument, Code::Unimplemented];
            assert!(codes.contains(&refused.code()), "{path} {bytes:?}: {refused:?}");
        }
        let large = answered(&mut channel, &bench, path, framed(&vec![0; (16 << 10) + 1])).await;
        assert_eq!(large.code(), Code::ResourceExhausted, "{path}: {large:?}");
        // Cut off anywhere it is no message, or another one.
        let cut = (0..message.len()).map(|length| message[..length].to_vec());
        let any = (0..60).map(|_| random.bytes(64)).collect::<Vec<_>>();
        for bytes in cut.chain(any) {
            let refused = answered(&mut channel, &bench, path, framed(&bytes)).await;
            let codes = [Code::InvalidArgument, Code::NotFound, Code::PermissionDenied, Code::Ok];
            assert!(codes.contains(&refused.code()), "{path} {bytes:?}: {refused:?}");
        }
    }
    assert_eq!(bench.balance(0), 10_000_000);
}
