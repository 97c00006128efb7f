//! A short queue that lives inside the state, so that a state is one flat value.

/// Room for two: a message, and one that follows it before it is read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Queue<T>([Option<T>; 2]);

impl<T: Copy> Queue<T> {
    pub const EMPTY: Self = Self([None, None]);

    pub fn len(&self) -> usize {
        self.iter().count()
    }

    pub fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.0.iter().flatten().copied()
    }

    pub fn get(&self, place: usize) -> Option<T> {
        self.0[place]
    }

    /// The caller has seen that there is room.
    pub fn push(&mut self, message: T) {
        let free = self.0.iter_mut().find(|slot| slot.is_none());
        *free.expect("a full queue takes nothing") = Some(message);
    }

    pub fn take(&mut self, place: usize) -> Option<T> {
        let taken = self.0[place].take();
        if place == 0 {
            self.0.swap(0, 1);
        }
        taken
    }

    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        let kept = *self;
        *self = Self::EMPTY;
        kept.iter().filter(|message| keep(message)).for_each(|message| self.push(message));
    }

    pub fn update(&mut self, change: impl Fn(&mut T)) {
        self.0.iter_mut().flatten().for_each(change);
    }
}
