-- Until when each namespace has paid for its submissions: the rate of those that have a quota for it.
CREATE TABLE submission_rate (
    namespace  integer PRIMARY KEY,
    paid_until bigint NOT NULL
) WITH (fillfactor = 20);
