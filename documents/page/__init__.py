"""The reviewer's page: one HTML file in which every set of explored faults can be chosen."""
