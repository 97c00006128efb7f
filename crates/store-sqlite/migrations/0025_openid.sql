-- People who log in at a provider of OpenID Connect are known by its issuer and their subject there.
ALTER TABLE identity_user ADD COLUMN openid_issuer TEXT;
ALTER TABLE identity_user ADD COLUMN openid_subject TEXT;

CREATE UNIQUE INDEX identity_user_openid ON identity_user (openid_issuer, openid_subject)
    WHERE deleted_at IS NULL AND openid_subject IS NOT NULL;
