//! Real programs in the real sandbox. The programs are written in C, in `tests/programs`.

mod behaviour;
mod canary;
mod corpus;
mod ends;
mod floor;
mod greedy;
mod hostile;
mod lab;
mod limits;
mod network;
mod programs;
