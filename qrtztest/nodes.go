package qrtztest

import "github.com/qrtz-go/qrtz"

// Kill kills the node, as kill -9 does its process, and has another one take its place at once. What runs at that moment, since it is
// held (Hold, HoldResult), does not continue. As in a cluster, its runs become LOST, and are recovered if their jobs ask for that,
// once the others have seen no heartbeat for Config.NodeTimeout: Advance by that and Config.PollInterval.
func (k *Kit) Kill() {
	k.tb.Helper()
	k.check(k.node.Kill(k.tb.Context()))
	k.join()
}

// Freeze freezes the node, as a machine that is suspended does its processes, and has another one take its place at once. It looks to
// the others as Kill does. But what is held continues when it is released, and may find that it has been LOST and recovered meanwhile:
// its result is then refused. It is the worst case that Run.Fence is for, since its context has not ended: the process has woken up,
// and has not noticed yet.
func (k *Kit) Freeze() {
	k.tb.Helper()
	k.check(k.node.Freeze(k.tb.Context()))
	k.frozen = append(k.frozen, k.node)
	k.join()
}

// Restart stops the node in order, as SIGTERM does when a new version is deployed, and has another one take its place at once. What is
// held continues with a context that has ended, the cause being qrtz.ErrDrained, as after Config.DrainTimeout. It returns what ended
// with that, and what the new node ran at once.
func (k *Kit) Restart() []qrtz.Event {
	k.tb.Helper()
	told, err := k.node.Stop(k.tb.Context())
	before := len(k.told)
	k.told = append(k.told, told...)
	k.check(err)
	k.join()
	k.Advance(0)
	return k.since(before)
}
