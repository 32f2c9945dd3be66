package qrtz

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/schema"
)

// cluster is what poller and misfire see of the other nodes.
type cluster struct {
	*node.Member
	clock *node.Clock
}

func (c cluster) Now() time.Time { return c.clock.Now() }

// Note takes in what the database's clock says in the answer to a claim.
func (c cluster) Note(r schema.ClockReading) {
	if !r.Server.IsZero() {
		c.clock.Note(r.Server, r.Sent, r.Received)
	}
}

func (c cluster) Claiming() bool {
	v := c.View()
	return v.Claiming() && c.Holds(v.Me.Instance)
}

func (c cluster) Switches() (appOn, nodeOn bool) {
	v := c.View()
	return v.AppOn, v.Me.On
}

func (c cluster) PassingOver() bool {
	v := c.View()
	return v.PassingOver()
}

func (c cluster) TimesOff(class string) []node.TimeOff {
	v := c.View()
	return v.TimesOff(class)
}

func (c cluster) Rank(class string, id int64) int {
	v := c.View()
	return v.Rank(class, id)
}

func (c cluster) Turn(class string, id int64) (owner string, rank int) {
	v := c.View()
	return v.Turn(class, id)
}

func (c cluster) Alone() bool {
	v := c.View()
	return v.Alone()
}

func (c cluster) Position() (position, of int) {
	v := c.View()
	return v.Position()
}

func (c cluster) nodes() int {
	_, of := c.Position()
	return of
}

func (c cluster) MayOwn() func(id int64) bool {
	v := c.View()
	return v.MayOwn()
}

func (c cluster) ReadView(ctx context.Context) (node.View, error) {
	err := c.Refresh(ctx)
	return c.View(), err
}

// version is that of this module in the running program, as far as the build tells.
func version() string {
	const module = "github.com/qrtz-go/qrtz"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	if info.Main.Path == module {
		return clipVersion(info.Main.Version)
	}
	for _, dep := range info.Deps {
		if dep.Path == module {
			return clipVersion(dep.Version)
		}
	}
	return ""
}

func clipVersion(v string) string { return v[:min(len(v), 50)] }
