-- Until when each namespace has paid for its submissions: the rate of those that have a quota for it.
CREATE TABLE submission_rate (
    namespace  INTEGER NOT NULL PRIMARY KEY,
    paid_until INTEGER NOT NULL
) STRICT;
