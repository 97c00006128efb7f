use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

use super::{Flow, Known, Link, Proxy};

/// Sends back what it gets.
async fn echo() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                tokio::io::copy(&mut from, &mut to).await
            });
        }
    });
    address
}

async fn proxied() -> (Proxy, TcpStream) {
    let known = Known::default();
    known.add(std::process::id());
    let proxy = Proxy::start(Ipv4Addr::LOCALHOST.into(), known).await.unwrap();
    proxy.lead_to(echo().await);
    let stream = TcpStream::connect(proxy.address()).await.unwrap();
    (proxy, stream)
}

async fn ask(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"hello").await?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).await?;
    assert_eq!(&answer, b"hello");
    Ok(())
}

/// What has not come by then never will.
const PATIENCE: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn bytes_that_were_held_arrive_once_the_link_is_mended() {
    for link in [Link::CUT, Link::NO_REQUESTS, Link::NO_ANSWERS] {
        let (proxy, mut stream) = proxied().await;
        ask(&mut stream).await.unwrap();
        proxy.set(link);
        stream.write_all(b"hello").await.unwrap();
        let mut answer = [0; 5];
        assert!(timeout(MOMENT, stream.read_exact(&mut answer)).await.is_err(), "{link:?}");
        assert!(proxy.counts().held >= 5);
        proxy.heal();
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"hello");
    }
}

#[tokio::test]
async fn rules_for_a_process_hold_for_its_connections_only() {
    let (proxy, mut stream) = proxied().await;
    proxy.set_for(std::process::id() + 1, Link::CUT);
    ask(&mut stream).await.unwrap();
    proxy.set_for(std::process::id(), Link::CUT);
    assert!(timeout(MOMENT, ask(&mut stream)).await.is_err());
}

#[tokio::test]
async fn latency_is_added_both_ways() {
    let (proxy, mut stream) = proxied().await;
    proxy.set(Link::late(Duration::from_millis(50)));
    let begun = Instant::now();
    ask(&mut stream).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(100), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn drips_arrive_in_pieces() {
    let (proxy, mut stream) = proxied().await;
    let drip = Flow::Drip { bytes: 1, pause: Duration::from_millis(20) };
    ask(&mut stream).await.unwrap();
    proxy.set(Link { there: drip, ..Link::OPEN });
    let begun = Instant::now();
    ask(&mut stream).await.unwrap();
    ask(&mut stream).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(80), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_reset_ends_open_connections_and_lets_in_new_ones() {
    let (proxy, mut stream) = proxied().await;
    ask(&mut stream).await.unwrap();
    proxy.reset_all();
    let error = loop {
        if let Err(error) = ask(&mut stream).await {
            break error;
        }
    };
    assert!(matches!(error.kind(), std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe), "{error}");
    assert_eq!(proxy.counts().cut, 1);
    ask(&mut TcpStream::connect(proxy.address()).await.unwrap()).await.unwrap();
    proxy.set(Link { refuses: true, ..Link::OPEN });
    assert!(ask(&mut TcpStream::connect(proxy.address()).await.unwrap()).await.is_err());
}

#[tokio::test]
async fn who_waits_for_an_answer_learns_that_the_other_end_was_reset() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start(Ipv4Addr::LOCALHOST.into(), Known::default()).await.unwrap();
    proxy.lead_to(listener.local_addr().unwrap());
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    let (mut reached, _) = listener.accept().await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    reached.read_exact(&mut [0; 5]).await.unwrap();
    reached.set_zero_linger().unwrap();
    drop(reached);
    let error = timeout(PATIENCE, stream.read(&mut [0; 1])).await.expect("it is told").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}
