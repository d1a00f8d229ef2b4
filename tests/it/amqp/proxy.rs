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
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// Looks at the bytes of one connection on their way from the broker, before they go
/// on to the service.
pub(super) type Watch = Box<dyn FnMut(&[u8]) + Send>;

/// Passes bytes on until it is cut.
pub(super) struct Proxy {
    address: SocketAddr,
    /// Counts the cuts.
    cut: watch::Sender<u32>,
    closed: Arc<AtomicBool>,
    muted: Arc<AtomicBool>,
    tasks: Tasks,
}

impl Proxy {
    /// A proxy to the broker.
    pub(super) async fn new() -> Self {
        Self::watched(|| Box::new(|_| ())).await
    }

    /// A proxy to the broker, with somebody who watches each connection.
    pub(super) async fn watched(watch: impl Fn() -> Watch + Send + 'static) -> Self {
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
            muted: Arc::default(),
            tasks: Tasks::new(),
        };
        let (cut, closed, tasks) = (proxy.cut.clone(), proxy.closed.clone(), proxy.tasks.clone());
        let muted = proxy.muted.clone();
        proxy.tasks.spawn("proxy", async move {
            while let Some(Ok((near, _))) = tasks
                .stopping()
                .run_until_cancelled(listener.accept())
                .await
            {
                if !closed.load(Ordering::SeqCst) {
                    tasks.spawn(
                        "proxied",
                        pass(
                            near,
                            target.clone(),
                            cut.subscribe(),
                            muted.clone(),
                            watch(),
                        ),
                    );
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

    /// Lets nothing through to the broker any more; what the broker says still
    /// comes in.
    pub(super) fn mute(&self) {
        self.muted.store(true, Ordering::SeqCst);
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

async fn pass(
    near: TcpStream,
    target: (String, u16),
    mut cut: watch::Receiver<u32>,
    muted: Arc<AtomicBool>,
    mut watch: Watch,
) {
    let far = TcpStream::connect(target).await.unwrap();
    let (mut from_near, mut to_near) = near.into_split();
    let (mut from_far, mut to_far) = far.into_split();
    let outwards = async {
        let mut bytes = [0; 8_192];
        while let Ok(count) = from_near.read(&mut bytes).await
            && count > 0
        {
            let told =
                muted.load(Ordering::SeqCst) || to_far.write_all(&bytes[..count]).await.is_ok();
            if !told {
                break;
            }
        }
    };
    let inwards = async {
        let mut bytes = [0; 8_192];
        while let Ok(count) = from_far.read(&mut bytes).await
            && count > 0
        {
            watch(&bytes[..count]);
            if to_near.write_all(&bytes[..count]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = outwards => {}
        () = inwards => {}
        _ = cut.changed() => {}
    }
}
