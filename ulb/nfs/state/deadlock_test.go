package state

import (
	"fmt"
	"testing"
	"testing/synctest"
)

// Owners that all hold a read lock ask for a write lock at once. All but the one that has waited longest hear
// of the deadlock when they ask again, the latest first, and that one gets its lock when they have let go.
func TestUpgradesThatBlockEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t)
		const owners = 4
		var all [owners]*locker
		for i := range all {
			all[i] = newLocker(t, m, fmt.Sprint(i))
			is(t, "a read lock", all[i].lock(true, 0, 10, false), ok)
		}
		bystander := newLocker(t, m, "bystander")
		is(t, "an owner without a lock", bystander.lock(true, 0, 10, true), LockConflict)
		for i, l := range all {
			want := LockConflict
			if i == owners-1 {
				want = Deadlock
			}
			is(t, fmt.Sprint("upgrade ", i), l.lock(true, 0, 10, true), want)
		}
		is(t, "the first one again, while the last one still has its lock", all[0].lock(true, 0, 10, true), LockConflict)
		for i := owners - 1; i > 0; i-- {
			is(t, fmt.Sprint("upgrade ", i, " again"), all[i].lock(true, 0, 10, true), Deadlock)
			all[i].unlock(0, 10)
		}
		is(t, "the one that has waited longest", all[0].lock(true, 0, 10, true), ok)
	})
}

// A lock in the way whose owner does not wait, or waits for other bytes, makes no deadlock.
func TestNoDeadlockWithoutACircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t)
		a, b, c, d := newLocker(t, m, "a"), newLocker(t, m, "b"), newLocker(t, m, "c"), newLocker(t, m, "d")
		for _, l := range []*locker{a, b, c} {
			is(t, "a read lock", l.lock(true, 0, 10, false), ok)
		}
		is(t, "a lock elsewhere", d.lock(true, 100, 1, true), ok)
		is(t, "it waits for the lock elsewhere", a.lock(true, 100, 1, true), LockConflict)
		is(t, "an upgrade while another one waits for other bytes", b.lock(true, 0, 10, true), LockConflict)
		is(t, "an upgrade while one waits for another owner", c.lock(true, 0, 10, true), LockConflict)
	})
}
