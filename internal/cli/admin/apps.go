package admin

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// App is a row of QRTZ_APP, and what belongs to it.
type App struct {
	Name       string `db:"APPLICATION" json:"app"`
	State      string `db:"STATE" json:"state"`
	SwitchedAt Time   `db:"SWITCHED_MS" json:"switched_at"`
	CheckedAt  Time   `db:"TIME_PRE" json:"checked_at"` // the last pass of the misfire handler
	Nodes      int    `db:"-" json:"nodes"`             // in the cluster
	Jobs       int    `db:"-" json:"jobs"`              // counted up to MaxCount
}

const appsSQL = `
SELECT A.APPLICATION, A.STATE, CAST(UNIX_TIMESTAMP(A.SWITCHED_AT) * 1000 AS SIGNED) AS SWITCHED_MS, A.TIME_PRE
  FROM QRTZ_APP A ORDER BY A.APPLICATION LIMIT ?`

// countsSQL counts for one app what belongs to it.
var countsSQL = `
SELECT ? AS AT, (SELECT COUNT(*) FROM QRTZ_NODE WHERE APPLICATION = ? AND INSTANCE IS NOT NULL) AS NODES,
       (SELECT COUNT(*) FROM (SELECT 1 FROM QRTZ_JOB WHERE APPLICATION = ? LIMIT ` + strconv.Itoa(MaxCount+1) + `) C) AS JOBS`

// most is how many apps or nodes are listed.
const most = 10_000

// Apps lists all apps.
func (s *Store) Apps(ctx context.Context) ([]App, error) {
	apps, err := s.apps(ctx)
	if err != nil {
		return nil, fmt.Errorf("list apps: %w", err)
	}
	return apps, nil
}

func (s *Store) apps(ctx context.Context) ([]App, error) {
	apps, err := rowsOf[App](ctx, s, query{appsSQL, []any{most}})
	if err != nil || len(apps) == 0 {
		return []App{}, err
	}
	at := 0
	for some := range slices.Chunk(apps, branches) {
		counts, err := rowsOf[counts](ctx, s, countsQuery(some))
		if err != nil {
			return nil, err
		}
		for _, c := range counts {
			apps[at].Nodes, apps[at].Jobs = c.Nodes, c.Jobs
			at++
		}
	}
	return apps, nil
}

type counts struct {
	At    int `db:"AT"`
	Nodes int `db:"NODES"`
	Jobs  int `db:"JOBS"`
}

func countsQuery(apps []App) query {
	all := make([]query, len(apps))
	for i, a := range apps {
		all[i] = query{countsSQL, []any{i, a.Name, a.Name}}
	}
	return merged(all, "AT", len(apps))
}

// CheckApp returns an error that names the apps there are if there is none of a name.
func (s *Store) CheckApp(ctx context.Context, name string) error {
	apps, err := rowsOf[App](ctx, s, query{appsSQL, []any{most}})
	if err != nil {
		return fmt.Errorf("list apps: %w", err)
	}
	names := make([]string, len(apps))
	for i, a := range apps {
		if a.Name == name {
			return nil
		}
		names[i] = a.Name
	}
	return NotFoundError{fmt.Sprintf("app %q; the apps are: %s", name, strings.Join(names, ", "))}
}
