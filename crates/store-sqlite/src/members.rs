//! The servers that use this store, and the duties that one of them does for all.

use async_trait::async_trait;
use punctual_core::shard::write::Epoch;
use punctual_core::{ServerId, Span, Timestamp};
use punctual_store::{DutyLease, Member, MemberStatus, Members, Result, SeenMember};
use rusqlite::{OptionalExtension, Row, params};

use crate::{SqliteStore, codec, sql};

#[async_trait]
impl Members for SqliteStore {
    async fn beat(&self, member: Member) -> Result<()> {
        let clock = self.shared.clock.clone();
        self.write(1, move |db| {
            db.conn.prepare_cached(sql!("beat"))?.execute(params![
                member.id.to_bytes(),
                member.address,
                member.version,
                member.roles.join(","),
                member.started_at.as_micros(),
                clock().as_micros(),
                member.status.workers,
                member.status.running,
                member.status.lag.as_micros(),
                member.zone_data,
            ])?;
            Ok(())
        })
        .await
    }

    async fn members(&self) -> Result<Vec<SeenMember>> {
        let read = |conn: &rusqlite::Connection| {
            let mut statement = conn.prepare_cached(sql!("members"))?;
            let members = statement.query_map([], read_member)?.collect::<rusqlite::Result<Vec<_>>>()?;
            Ok(members)
        };
        self.shared.people_reads.read(read).await
    }

    async fn leave(&self, server: ServerId) -> Result<()> {
        self.write(1, move |db| {
            db.conn.prepare_cached(sql!("leave"))?.execute([server.to_bytes()])?;
            Ok(())
        })
        .await
    }

    async fn forget_members(&self, before: Timestamp) -> Result<usize> {
        self.write(1, move |db| Ok(db.conn.prepare_cached(sql!("forget_members"))?.execute([before.as_micros()])?))
            .await
    }

    async fn hold_duty(&self, server: ServerId, duty: &str, ttl: Span) -> Result<Option<Epoch>> {
        let (clock, duty) = (self.shared.clock.clone(), duty.to_owned());
        self.write(1, move |db| {
            let now = clock();
            let mut statement = db.conn.prepare_cached(sql!("hold_duty"))?;
            let until = now + ttl;
            let row = params![duty, server.to_bytes(), now.as_micros(), until.as_micros()];
            Ok(statement.query_row(row, |row| codec::epoch(row, 0)).optional()?)
        })
        .await
    }

    async fn drop_duties(&self, server: ServerId) -> Result<()> {
        self.write(1, move |db| {
            db.conn.prepare_cached(sql!("drop_duties"))?.execute([server.to_bytes()])?;
            Ok(())
        })
        .await
    }

    async fn duties(&self) -> Result<Vec<DutyLease>> {
        let read = |conn: &rusqlite::Connection| {
            let mut statement = conn.prepare_cached(sql!("duties"))?;
            let duties = statement.query_map([], read_duty)?.collect::<rusqlite::Result<Vec<_>>>()?;
            Ok(duties)
        };
        self.shared.people_reads.read(read).await
    }
}

fn read_member(row: &Row<'_>) -> rusqlite::Result<SeenMember> {
    let roles: String = row.get(3)?;
    let status = MemberStatus { workers: row.get(6)?, running: row.get(7)?, lag: Span::from_micros(row.get(8)?) };
    let member = Member {
        id: codec::server_id(row, 0)?,
        address: row.get(1)?,
        version: row.get(2)?,
        roles: roles.split(',').filter(|role| !role.is_empty()).map(str::to_owned).collect(),
        started_at: codec::time(row, 4)?,
        status,
        zone_data: row.get(9)?,
    };
    Ok(SeenMember { member, seen_at: codec::time(row, 5)? })
}

fn read_duty(row: &Row<'_>) -> rusqlite::Result<DutyLease> {
    Ok(DutyLease {
        duty: row.get(0)?,
        owner: codec::server_id(row, 1)?,
        epoch: codec::epoch(row, 2)?,
        until: codec::time(row, 3)?,
    })
}
