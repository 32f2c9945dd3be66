package qrtz

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/app"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/schema"
)

// SwitchApp switches the app on or off. Off, its nodes start nothing new from the moment this takes effect, and running handlers
// continue; on again, what was due in between is passed over. ErrNotFound says that no node of the app has ever joined.
func (c *Client) SwitchApp(ctx context.Context, on bool) error {
	return c.change(ctx, "switch app", func(tx *sqlx.Tx, _ time.Time) error {
		_, err := app.NewStore(c.db, schema.Prefix(c.scheduler.cfg.Prefix), c.scheduler.cfg.App).Switch(ctx, tx, on)
		return c.orNotFound(err, "no row, since none of its nodes has joined yet")
	})
}

// SwitchNode switches a node of the app on or off, by its id, as SwitchApp does the app. Its process stays, and is still off when it
// is started again. ErrNotFound says that there is no such node.
func (c *Client) SwitchNode(ctx context.Context, nodeID string, on bool) error {
	return c.change(ctx, "switch node", func(tx *sqlx.Tx, _ time.Time) error {
		_, err := node.NewStore(c.db, schema.Prefix(c.scheduler.cfg.Prefix), c.scheduler.cfg.App).Switch(ctx, tx, nodeID, on)
		return c.orNotFound(err, fmt.Sprintf("no node %q", nodeID))
	})
}

// Drain switches a node of the app off, by its id, and waits until nothing runs there any more. Runs without a row (HistoryNone) are not
// seen. The node stays off; SwitchNode switches it on again. ErrNotFound says that there is no such node. If ctx ends first, the error is
// its cause. On the Client of a transaction Drain returns an error.
func (c *Client) Drain(ctx context.Context, nodeID string) error {
	if c.tx != nil {
		return fmt.Errorf("qrtz: drain node %q: %w", nodeID, errInTx)
	}
	if err := c.SwitchNode(ctx, nodeID, false); err != nil {
		return err
	}
	return c.read(ctx, "drain", func(on schema.On) error {
		var p pacer
		for {
			n, err := node.Find(ctx, on, c.scheduler.cfg.App, nodeID)
			if err != nil || n.Running == 0 {
				return err
			}
			if _, _, err := p.next(ctx, nil); err != nil {
				return err
			}
		}
	})
}

// orNotFound is ErrNotFound for a row that is not there.
func (c *Client) orNotFound(err error, what string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: app %q has %s", ErrNotFound, c.scheduler.cfg.App, what)
	}
	return err
}
