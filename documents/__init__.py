"""What writes README's tables, docs/ and the page: from runs, and from what is kept of them. Knows the
package."""
