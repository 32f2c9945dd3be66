package main_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAppsAreListedAndSwitched(t *testing.T) {
	s := newSite(t)
	assert.Regexp(t, `(?m)^APP +STATE +NODES +JOBS.*\na +on +2 +2 .*\nb +on +1 +1 `, s.ok("app", "list"))
	assert.Equal(t, "app a is off\n", s.ok("app", "stop", "a", "--yes"))
	assert.Equal(t, "app a is off, as it was before\n", s.ok("app", "stop", "a", "--yes"))
	assert.Equal(t, "N", s.text(`SELECT STATE FROM QRTZ_APP WHERE APPLICATION = 'a' AND SWITCHED_AT IS NOT NULL`))
	assert.Contains(t, s.ok("app", "list", "--json"), `"state": "N"`)
	assert.Equal(t, "app a is on\n", s.ok("app", "start", "a"))
	assert.Contains(t, s.fails(1, "app", "start", "x"), `there is no app "x"; the apps are: a, b`)
}
