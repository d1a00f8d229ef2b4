//! A network between the service and the broker that a test can cut.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use onceledger::tasks::Tasks;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// Passes bytes on until it is cut.
pub(super) struct Proxy {
    address: SocketAddr,
    /// Counts the cuts.
    cut: watch::Sender<u32>,
    closed: Arc<AtomicBool>,
    tasks: Tasks,
}

impl Proxy {
    /// A proxy to the broker.
    pub(super) async fn new() -> Self {
        let broker = url::Url::parse(&super::broker::url()).unwrap();
        let target = (
            broker.host_str().unwrap().to_owned(),
            broker.port().unwrap_or(5672),
        );
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self {
            address: listener.local_addr().unwrap(),
            cut: watch::channel(0).0,
            closed: Arc::default(),
            tasks: Tasks::new(),
        };
        let (cut, closed, tasks) = (proxy.cut.clone(), proxy.closed.clone(), proxy.tasks.clone());
        proxy.tasks.spawn("proxy", async move {
            while let Some(Ok((near, _))) = tasks
                .stopping()
                .run_until_cancelled(listener.accept())
                .await
            {
                if !closed.load(Ordering::SeqCst) {
                    tasks.spawn("proxied", pass(near, target.clone(), cut.subscribe()));
                }
            }
        });
        proxy
    }

    /// The broker's address through this proxy.
    pub(super) fn url(&self) -> String {
        let mut url = url::Url::parse(&super::broker::url()).unwrap();
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(self.address.port())).unwrap();
        url.into()
    }

    /// Cuts every connection; new ones pass.
    pub(super) fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }

    /// Cuts every connection and takes no new ones.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.cut();
    }

    /// Takes connections again.
    pub(super) fn open(&self) {
        self.closed.store(false, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.tasks.stopping().cancel();
        self.cut();
    }
}

async fn pass(mut near: TcpStream, target: (String, u16), mut cut: watch::Receiver<u32>) {
    let mut far = TcpStream::connect(target).await.unwrap();
    tokio::select! {
        _ = copy_bidirectional(&mut near, &mut far) => {}
        _ = cut.changed() => {}
    }
}
