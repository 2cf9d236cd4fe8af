"""The report as one HTML file that fetches nothing: data and assets in a page of its own."""
