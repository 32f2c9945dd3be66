// Package user uses the fixture.
package user
