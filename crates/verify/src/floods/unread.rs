//! HTTP/2 connections that ask for long lists on many streams and give the server no room to send them.

use std::net::SocketAddr;

use tokio::net::TcpStream;

const STREAMS: usize = 95;

pub(super) async fn flood(server: SocketAddr, connections: usize) -> anyhow::Result<()> {
    let mut open = Vec::new();
    for _ in 0..connections {
        let stream = TcpStream::connect(server).await?;
        let (mut sender, connection) = h2::client::Builder::new()
            .initial_window_size(0)
            .initial_connection_window_size(65_535)
            .handshake::<_, bytes::Bytes>(stream)
            .await?;
        tokio::spawn(connection);
        for _ in 0..STREAMS {
            let request = http::Request::get(format!("http://{server}/v1/jobs?limit=1000")).body(())?;
            sender = sender.ready().await?;
            let (answer, _) = sender.send_request(request, true)?;
            // Kept, and never read.
            open.push(tokio::spawn(async move {
                let answer = answer.await;
                std::future::pending::<()>().await;
                drop(answer);
            }));
        }
    }
    println!("ready");
    std::future::pending::<()>().await;
    drop(open);
    Ok(())
}
