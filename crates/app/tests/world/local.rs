//! Whoever runs the server, who may do everything.

use std::sync::Arc;

use punctual_app::{App, By, Permission, SocketUser, Transport};

#[allow(dead_code, reason = "not every test asks for itself")]
pub(crate) fn by<R: Permission>(app: &App) -> By<R> {
    let local = Transport { socket_user: SocketUser::Own, ..Transport::default() };
    let local = app.authenticate(&local, None, None).expect("the server's own user needs no credential");
    Arc::new(local).permit().expect("the server's own user may do everything")
}
