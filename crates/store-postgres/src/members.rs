//! The servers that use this store, and the duties that one of them does for all.

use async_trait::async_trait;
use punctual_core::shard::write::Epoch;
use punctual_core::{ServerId, Span, Timestamp};
use punctual_store::{DutyLease, Member, MemberStatus, Members, Result, SeenMember};
use tokio_postgres::Row;

use crate::codec::{self, Read, Uuid};
use crate::{PostgresStore, sql};

#[async_trait]
impl Members for PostgresStore {
    async fn beat(&self, member: Member) -> Result<()> {
        self.open()?;
        let roles: Vec<String> = member.roles.iter().map(|role| codec::text(role)).collect();
        let conn = self.shared.heartbeat.conn().await?;
        conn.execute(
            sql!("beat"),
            &[
                &Uuid::from(member.id),
                &codec::text(&member.address),
                &codec::text(&member.version),
                &roles,
                &member.started_at.as_micros(),
                &self.test_now(),
                &(member.status.workers as i32),
                &(member.status.running as i32),
                &member.status.lag.as_micros(),
                &codec::text(&member.zone_data),
            ],
        )
        .await?;
        Ok(())
    }

    async fn members(&self) -> Result<Vec<SeenMember>> {
        self.open()?;
        let rows = self.shared.leases.conn().await?.query(sql!("members"), &[]).await?;
        Ok(rows.iter().map(read_member).collect::<Read<_>>()?)
    }

    async fn leave(&self, server: ServerId) -> Result<()> {
        self.open()?;
        self.shared.leases.conn().await?.execute(sql!("leave"), &[&Uuid::from(server)]).await?;
        Ok(())
    }

    async fn forget_members(&self, before: Timestamp) -> Result<usize> {
        self.open()?;
        let conn = self.shared.leases.conn().await?;
        Ok(conn.execute(sql!("forget_members"), &[&before.as_micros()]).await? as usize)
    }

    async fn hold_duty(&self, server: ServerId, duty: &str, ttl: Span) -> Result<Option<Epoch>> {
        self.open()?;
        let conn = self.shared.heartbeat.conn().await?;
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&codec::text(duty), &Uuid::from(server), &ttl.as_micros(), &self.test_now()];
        let row = conn.query_opt(sql!("hold_duty"), &params).await?;
        Ok(row.map(|row| codec::epoch(&row, 0)).transpose()?)
    }

    async fn drop_duties(&self, server: ServerId) -> Result<()> {
        self.open()?;
        self.shared.leases.conn().await?.execute(sql!("drop_duties"), &[&Uuid::from(server)]).await?;
        Ok(())
    }

    async fn duties(&self) -> Result<Vec<DutyLease>> {
        self.open()?;
        let rows = self.shared.leases.conn().await?.query(sql!("duties"), &[]).await?;
        Ok(rows.iter().map(read_duty).collect::<Read<_>>()?)
    }
}

fn read_member(row: &Row) -> Read<SeenMember> {
    let status = MemberStatus {
        workers: codec::value::<i32>(row, 6)? as u32,
        running: codec::value::<i32>(row, 7)? as u32,
        lag: Span::from_micros(codec::value(row, 8)?),
    };
    let member = Member {
        id: codec::server_id(row, 0)?,
        address: codec::value(row, 1)?,
        version: codec::value(row, 2)?,
        roles: codec::value(row, 3)?,
        started_at: codec::time(row, 4)?,
        status,
        zone_data: codec::value(row, 9)?,
    };
    Ok(SeenMember { member, seen_at: codec::time(row, 5)? })
}

fn read_duty(row: &Row) -> Read<DutyLease> {
    Ok(DutyLease {
        duty: codec::value(row, 0)?,
        owner: codec::server_id(row, 1)?,
        epoch: codec::epoch(row, 2)?,
        until: codec::time(row, 3)?,
    })
}
