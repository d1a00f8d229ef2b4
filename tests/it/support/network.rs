//! The network before a server, with what networks do: refuse, break, and swallow
//! without a word.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinSet,
};

/// How the network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Everything passes.
    Whole,
    /// Connections break, and new ones are ended at once.
    Broken,
    /// Nothing passes and nobody is told; new connections are taken and never heard.
    Silent,
}

/// A way to a server; it ends when it is dropped.
pub struct Road {
    port: u16,
    network: watch::Sender<Network>,
    _tasks: JoinSet<()>,
}

impl Road {
    /// A whole road to the server of a URL.
    pub async fn to(server: &str, default_port: u16) -> Self {
        let server = url::Url::parse(server).unwrap();
        let host = server.host_str().unwrap().to_owned();
        let target = (host, server.port().unwrap_or(default_port));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let network = watch::Sender::new(Network::Whole);
        let now = network.subscribe();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut passing = JoinSet::new();
            loop {
                let (near, _) = listener.accept().await.unwrap();
                passing.spawn(pass(near, target.clone(), now.clone()));
            }
        });
        Self {
            port,
            network,
            _tasks: tasks,
        }
    }

    /// The server's URL by this road.
    pub fn url(&self, server: &str) -> String {
        let mut url = url::Url::parse(server).unwrap();
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(self.port)).unwrap();
        url.into()
    }

    /// Changes the network.
    pub fn is(&self, network: Network) {
        self.network.send_replace(network);
    }
}

async fn pass(near: TcpStream, target: (String, u16), network: watch::Receiver<Network>) {
    let mut broken = network.clone();
    let passing = async {
        let whole = network.clone().wait_for(is_whole).await.map(drop);
        if whole.is_err() {
            return;
        }
        let Ok(far) = TcpStream::connect(target).await else {
            return;
        };
        let (from_near, to_near) = near.into_split();
        let (from_far, to_far) = far.into_split();
        tokio::select! {
            () = copy(from_near, to_far, network.clone()) => {}
            () = copy(from_far, to_near, network.clone()) => {}
        }
    };
    tokio::select! {
        () = passing => {}
        _ = broken.wait_for(|it| *it == Network::Broken) => {}
    }
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut network: watch::Receiver<Network>,
) {
    let mut bytes = [0; 8_192];
    while let Ok(count) = from.read(&mut bytes).await
        && count > 0
    {
        if network.wait_for(is_whole).await.is_err() || to.write_all(&bytes[..count]).await.is_err()
        {
            return;
        }
    }
}

fn is_whole(network: &Network) -> bool {
    *network == Network::Whole
}
