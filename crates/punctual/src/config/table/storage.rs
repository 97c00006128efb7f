//! Settings that say where uploaded files and logs are kept. Those of S3 are read only where the storage is in S3.

use super::{SERVER_AND_DEV, SERVERS};
use crate::config::kind::{parsed, secret, text};
use crate::config::setting::{setting, settings, unset};
use crate::config::storage::{Place, endpoint, place};

settings! {
    read by SERVERS;

    Storage {
        storage: Place = parsed(place),
            unset(
                "the folder `storage` in `data_dir`",
                "Where uploaded files and logs are kept: a folder, or s3://bucket/prefix",
            )
            .flag(SERVER_AND_DEV, "PLACE");
        storage_endpoint: Option<String> = parsed(endpoint).or_none(),
            unset("Amazon's own", "The address of the S3 service").or_variable("AWS_ENDPOINT_URL");
        storage_region: String = text(),
            setting("us-east-1", "The region of the bucket").or_variable("AWS_REGION");
        storage_key_id: String = secret(),
            unset("", "The id of the access key for the bucket").or_variable("AWS_ACCESS_KEY_ID");
        storage_secret: String = secret(),
            unset("", "The secret of the access key, or @ and a file with it")
                .or_variable("AWS_SECRET_ACCESS_KEY").secret();
        storage_token: Option<String> = secret().or_none(),
            unset("", "A session token, or @ and a file with it").or_variable("AWS_SESSION_TOKEN").secret();
    }
}
