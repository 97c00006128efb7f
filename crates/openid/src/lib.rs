//! OpenID Connect, from the side of the one who relies on a provider: discovery, the provider's keys, ID tokens, and the two
//! flows by which people log in.
//!
//! Speaks to one provider, which the settings name. Everything that comes from it, and everything that a browser brings back, is
//! bounded and checked: a login that this crate answers with an [`Identity`] was made by the provider, for this client and for this
//! very login. Keeps no logins, makes no sessions and knows no roles; see `punctual_app`.

mod claims;
mod device;
mod discovery;
mod fault;
mod http;
mod json;
mod keys;
mod login;
mod pkce;
mod provider;
mod settings;
mod token;

pub use claims::Identity;
pub use device::{DeviceCode, DevicePoll};
pub use fault::Fault;
pub use login::{Answer, LoginSecrets};
pub use pkce::{challenge_of, is_challenge};
pub use provider::Provider;
pub use settings::{BadSettings, ClientSecret, ProviderSettings};
